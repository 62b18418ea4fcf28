//! The HTML page with one table per paper.

use super::published::{in_notes, place};
use super::{Evaluation, Row};
use chart::{document, escaped};

/// The whole page as one HTML document.
pub fn html(evaluations: &[Evaluation], seeds: u64) -> String {
    let introduction = format!(
        "<header><h1>Published and simulated figures</h1><p>Each figure is simulated over random schedules, {seeds} \
         at most: the published policy under the assumptions of its paper (<b>assumed</b>), the same under neutral assumptions \
         (<b>honest</b>), and flowcon's default policy under those (<b>default</b>). The last column says where the paper has \
         the published figure, and in which words.</p></header>"
    );
    let sections: String = evaluations.iter().map(section).collect();
    let footer =
        "<footer>Made by <code>flowsim paper all --html FILE</code>; the same command gives the same figures.</footer>";
    document("flowsim: published figures", &format!("<main>{introduction}{sections}{footer}</main>"))
}

fn section(evaluation: &Evaluation) -> String {
    let Evaluation { title, base, assumed, honest, default, schedules, rows, notes } = evaluation;
    let rows: String = rows.iter().map(|row| line(evaluation, row)).collect();
    let notes: String = notes.iter().map(|note| format!("<li>{}</li>", escaped(note))).collect();
    let sources: String = in_notes(evaluation)
        .map(|figure| figure.map(escaped))
        .map(|[what, figure, place, words]| format!("<li>{what}, {figure}: {place}: {words}</li>"))
        .collect();
    let sources = match sources.is_empty() {
        true => String::new(),
        false => format!("<h3>Published figures in these notes</h3><ul>{sources}</ul>"),
    };
    let columns = [("assumed", assumed), ("honest", honest), ("default", default)]
        .map(|(name, meaning)| format!("<b>{name}</b>: {}", escaped(meaning)))
        .join("; ");
    format!(
        "<section><h2>{}</h2><p>Changes against {}; means over {schedules} schedules; {columns}.</p>\
         <div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>schedule</th><th class=\"left\">figure</th><th>published</th><th>assumed</th>\
         <th>honest</th><th>default</th><th class=\"left\">in the paper</th></tr></thead><tbody>{rows}</tbody></table></div>\
         <h3>Not reproduced, and why</h3><ul>{notes}</ul>{sources}</section>",
        escaped(title),
        escaped(base),
    )
}

fn line(evaluation: &Evaluation, row: &Row) -> String {
    let cells: String = [&row.published, &row.assumed, &row.honest, &row.default]
        .iter()
        .map(|cell| format!("<td>{}</td>", escaped(cell)))
        .collect();
    let place = place(evaluation, row).map_or_else(String::new, |[place, words]| format!("{place}: {words}"));
    let [source, what, place] = [&row.source, row.what, &place].map(escaped);
    format!("<tr><th>{source}</th><td class=\"left\">{what}</td>{cells}<td class=\"left\">{place}</td></tr>")
}
