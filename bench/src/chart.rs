//! A picture of the first tables: costs as bars, each group to its own scale.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const LABELS: f64 = 180.0;
const BAR: f64 = 18.0;
const GAP: f64 = 6.0;
const TITLE: f64 = 34.0;

/// Groups of names and costs; the first of each is ours.
pub(crate) fn svg(groups: &[(String, Vec<(String, f64)>)]) -> String {
    let height: f64 = 20.0
        + groups
            .iter()
            .map(|(_, bars)| TITLE + bars.len() as f64 * (BAR + GAP))
            .sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let mut y = 8.0;
    for (title, bars) in groups {
        let most = bars.iter().map(|(_, cost)| *cost).fold(1.0, f64::max);
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"{}\" font-weight=\"bold\" fill=\"#222222\">{title}, ns per request</text>",
            y + 18.0
        );
        y += TITLE - GAP;
        for (nth, (name, cost)) in bars.iter().enumerate() {
            let colour = if nth == 0 { "#1a7f64" } else { "#b9c0c7" };
            let length = (WIDTH - LABELS - 80.0) * cost / most;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#222222\">{name}</text>\
                 <rect x=\"{LABELS}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\" fill=\"#222222\">{cost:.0}</text>",
                LABELS - 8.0,
                y + 13.5,
                LABELS + length + 6.0,
                y + 13.5
            );
            y += BAR + GAP;
        }
        y += GAP;
    }
    svg + "</svg>\n"
}
