//! A screen as an SVG picture: a dark window that is readable on light and on dark pages, whatever fonts there are.
//!
//! Each word group stands at its own place and is as wide as its cells, so columns stay aligned in any font. The picture
//! has no script, no animation and no reference. All lengths are in tenths of a pixel, so the bytes are the same anywhere.

use super::screen::{Cell, Style, has_ground};
use std::fmt::Write as _;

/// A cell's width and height.
const CELL: (usize, usize) = (84, 200);
/// From the top of a cell to the line on which letters stand.
const BASELINE: usize = 146;
/// Around the text.
const PADDING: (usize, usize) = (200, 140);
/// Height of the bar at the top.
const BAR: usize = 320;

/// The terminal's own colours.
const GROUND: u32 = 0x000d_1117;
const TEXT: u32 = 0x00d6_dde4;
const BORDER: u32 = 0x003d_444d;
const BAR_GROUND: u32 = 0x0016_1b22;
const BAR_TEXT: u32 = 0x008b_949e;
/// The letters' share of a dim colour, in percent; the rest is the ground behind them.
const DIM: u32 = 62;

/// Draws a screen of this many columns; `title` says in words what is seen.
pub(super) fn draw(lines: &[Vec<Cell>], columns: usize, name: &str, title: &str) -> String {
    let width = columns * CELL.0 + 2 * PADDING.0;
    let height = BAR + lines.len() * CELL.1 + 2 * PADDING.1;
    let mut svg = frame(width, height, name, title);
    for (row, line) in lines.iter().enumerate() {
        let top = BAR + PADDING.1 + row * CELL.1;
        for run in line.chunk_by(|a, b| a.style == b.style) {
            draw_run(&mut svg, run, top);
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The window with its bar, and the beginning of the text.
fn frame(width: usize, height: usize, name: &str, title: &str) -> String {
    let (w, h, bar) = (tenths(width), tenths(height), tenths(BAR));
    let (inner_w, inner_h) = (tenths(width - 10), tenths(height - 10));
    let (ground, border) = (hex(GROUND), hex(BORDER));
    let (bar_ground, bar_text) = (hex(BAR_GROUND), hex(BAR_TEXT));
    let (middle, right) = (tenths(width / 2), tenths(width - 85));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{inner_w}\" height=\"{inner_h}\" rx=\"8\" fill=\"{ground}\" stroke=\"{border}\"/>\n\
         <path d=\"M1 {bar}V8.5A7.5 7.5 0 0 1 8.5 1H{right}a7.5 7.5 0 0 1 7.5 7.5V{bar}z\" fill=\"{bar_ground}\"/>\n",
        title = escape(title),
    );
    for at in 0..3 {
        let x = tenths(PADDING.0 + 55 + 180 * at);
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"16\" r=\"5.5\" fill=\"{border}\"/>");
    }
    let _ = writeln!(
        svg,
        "<g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace\" font-size=\"14\" fill=\"{text}\">\n\
         <text x=\"{middle}\" y=\"20.5\" font-size=\"12.5\" text-anchor=\"middle\" fill=\"{bar_text}\">{name}</text>",
        text = hex(TEXT),
        name = escape(name),
    );
    svg
}

/// Cells of one style: what is behind them, then their text.
fn draw_run(svg: &mut String, run: &[Cell], top: usize) {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
    let (text, ground) = colours(first.style);
    let (left, right) = (x(first.column), x(last.column + last.width));
    if let Some(ground) = ground {
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            tenths(left),
            tenths(top),
            tenths(right - left),
            tenths(CELL.1),
            hex(ground),
        );
    }
    for group in run.chunk_by(|a, b| is_line(a.char) == is_line(b.char)) {
        if group.first().is_some_and(|cell| is_line(cell.char)) {
            draw_lines(svg, group, top, text);
        } else {
            draw_words(svg, group, top, (text, first.style.is_bold));
        }
    }
}

/// Lines of a table. As letters they would have gaps.
fn draw_lines(svg: &mut String, cells: &[Cell], top: usize, colour: u32) {
    let mut path = String::new();
    for cell in cells {
        let (left, middle) = (x(cell.column), top + CELL.1 / 2);
        let _ = match cell.char {
            '│' => {
                let left = tenths(left + CELL.0 / 2);
                write!(path, "M{left} {}v{}", tenths(top), tenths(CELL.1))
            }
            _ => write!(path, "M{} {}h{}", tenths(left), tenths(middle), tenths(CELL.0)),
        };
    }
    let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{}\" fill=\"none\"/>", hex(colour));
}

/// Words, each group of them that two blanks part at its own place.
fn draw_words(svg: &mut String, cells: &[Cell], top: usize, (colour, is_bold): (u32, bool)) {
    let mut attributes = String::new();
    if colour != TEXT {
        let _ = write!(attributes, " fill=\"{}\"", hex(colour));
    }
    if is_bold {
        attributes.push_str(" font-weight=\"bold\"");
    }
    for words in groups(cells) {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { continue };
        let (left, right) = (x(first.column), x(last.column + last.width));
        let text: String = words.iter().map(|cell| cell.char).collect();
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"{attributes}>{}</text>",
            tenths(left),
            tenths(top + BASELINE),
            tenths(right - left),
            escape(&text),
        );
    }
}

/// Parts cells at two blanks and more; what remains neither begins nor ends with a blank.
fn groups(cells: &[Cell]) -> Vec<&[Cell]> {
    let (mut groups, mut begin, mut end) = (Vec::new(), None, 0);
    for (at, cell) in cells.iter().enumerate() {
        if cell.char == ' ' {
            continue;
        }
        if let Some(from) = begin.filter(|_| end + 1 < at) {
            groups.extend(cells.get(from..end));
            begin = None;
        }
        begin = begin.or(Some(at));
        end = at + 1;
    }
    groups.extend(begin.and_then(|from| cells.get(from..end)));
    groups
}

fn is_line(char: char) -> bool {
    matches!(char, '│' | '─')
}

/// The colour of a style's letters, and that behind them unless it is the window's.
fn colours(style: Style) -> (u32, Option<u32>) {
    let (mut text, mut ground) = (style.text.unwrap_or(TEXT), style.ground.unwrap_or(GROUND));
    if style.is_reverse {
        (text, ground) = (ground, text);
    }
    if style.is_dim {
        text = mixed(text, ground);
    }
    (text, (has_ground(style) && ground != GROUND).then_some(ground))
}

/// A dim colour on a ground.
fn mixed(colour: u32, ground: u32) -> u32 {
    let channel = |shift: u32| {
        let of = |colour: u32| (colour >> shift) & 0xff;
        ((of(colour) * DIM + of(ground) * (100 - DIM)) / 100) << shift
    };
    channel(16) | channel(8) | channel(0)
}

fn x(column: usize) -> usize {
    PADDING.0 + column * CELL.0
}

/// A length in pixels.
fn tenths(length: usize) -> String {
    match (length / 10, length % 10) {
        (whole, 0) => whole.to_string(),
        (whole, part) => format!("{whole}.{part}"),
    }
}

fn hex(colour: u32) -> String {
    format!("#{colour:06x}")
}

/// Text as XML has it. Other control characters than these are not in a screen.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            char if char.is_control() => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::screen::parse;
    use super::*;

    fn drawn(captured: &str) -> String {
        draw(&parse(captured), 20, "name", "title")
    }

    #[test]
    fn text_is_escaped() {
        let svg = draw(&parse("<a> & \"b\""), 20, "<name>", "a & b");
        assert!(svg.contains(">&lt;a&gt; &amp; &quot;b&quot;</text>"), "{svg}");
        assert!(svg.contains(">&lt;name&gt;</text>") && svg.contains("<title>a &amp; b</title>"));
    }

    #[test]
    fn columns_have_places_of_their_own() {
        let svg = drawn("NAME      STATE\na b   漢c");
        for place in
            ["x=\"20\" y=\"60.6\" textLength=\"33.6\"", "x=\"104\" y=\"60.6\" textLength=\"42\""]
        {
            assert!(svg.contains(place), "{place}: {svg}");
        }
        // A wide character takes two cells.
        assert!(svg.contains("x=\"20\" y=\"80.6\" textLength=\"25.2\"") && svg.contains(">a b<"));
        assert!(svg.contains("x=\"70.4\" y=\"80.6\" textLength=\"25.2\"") && svg.contains(">漢c<"));
    }

    #[test]
    fn styles_are_drawn() {
        let svg = drawn("\u{1b}[1;31mred\u{1b}[0m \u{1b}[2mdim\u{1b}[0m \u{1b}[7m x \u{1b}[0m");
        assert!(svg.contains("fill=\"#ff7b72\" font-weight=\"bold\">red<"), "{svg}");
        assert!(svg.contains(&format!("fill=\"{}\">dim<", hex(mixed(TEXT, GROUND)))), "{svg}");
        let behind = format!("width=\"25.2\" height=\"20\" fill=\"{}\"/>", hex(TEXT));
        assert!(svg.contains(&behind), "{svg}");
        assert!(svg.contains(&format!("fill=\"{}\">x<", hex(GROUND))), "{svg}");
    }

    #[test]
    fn lines_are_drawn_without_gaps() {
        let svg = drawn("│\n──");
        assert!(svg.contains("<path d=\"M24.2 46v20\""), "{svg}");
        assert!(svg.contains("<path d=\"M20 76h8.4M28.4 76h8.4\""), "{svg}");
    }

    #[test]
    fn the_same_screen_gives_the_same_bytes_and_nothing_is_referred_to() {
        let captured = "\u{1b}[33m! docs\u{1b}[0m  awaiting_input";
        assert_eq!(drawn(captured), drawn(captured));
        let svg = drawn(captured);
        assert!(!svg.contains("href") && !svg.contains("<script") && !svg.contains("url("));
    }
}
