//! The HTML page around charts and tables: one file without scripts or external resources.

use super::svg::series;
use super::{STYLE, escaped};

const PAGE_STYLE: &str = include_str!("page.css");

/// Renders a whole document. `body` is HTML in which untrusted text is [`escaped`]; `title` is plain text.
pub fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    // The policy forbids loading and running anything, whatever a name contains.
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
         <title>{title}</title><style>{STYLE}{PAGE_STYLE}</style></head><body>{body}</body></html>\n"
    )
}

/// A section with this title; `content` is HTML.
pub fn section(title: &str, content: &str) -> String {
    format!("<section><h2>{}</h2>{content}</section>", escaped(title))
}

/// Names with the colours of their series, in this order.
pub fn legend(names: &[String]) -> String {
    let item =
        |(number, name): (usize, &String)| format!("<li><i class=\"{}\"></i>{}</li>", series(number), escaped(name));
    let items: String = names.iter().enumerate().map(item).collect();
    format!("<ul class=\"legend\" aria-label=\"Colours\">{items}</ul>")
}
