//! The HTML page around pictures and tables: one file, no script, nothing from elsewhere. Imports: its styles.

use super::{STYLE, escaped};

const PAGE_STYLE: &str = include_str!("page.css");

/// A whole document. `body` is HTML with whatever came from elsewhere [`escaped`]; `title` is plain text.
pub fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    // Nothing may be loaded or run, whatever a name holds.
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
         <title>{title}</title><style>{STYLE}{PAGE_STYLE}</style></head><body>{body}</body></html>\n"
    )
}
