//! A screen as `tmux capture-pane -e` prints it: text with its colours, in cells.

use unicode_width::UnicodeWidthChar as _;

/// The colours that programs name by number: black, red, green, yellow, blue, magenta, cyan and white, then the same
/// ones brighter. Each has a contrast of 4.5:1 and more on the window, but for black.
const NAMED: [u32; 16] = [
    0x0048_4f58,
    0x00ff_7b72,
    0x0056_d364,
    0x00e3_b341,
    0x0079_c0ff,
    0x00d2_a8ff,
    0x0056_d4dd,
    0x00c9_d1d9,
    0x008b_949e,
    0x00ff_a198,
    0x007e_e787,
    0x00f2_cc60,
    0x00a5_d6ff,
    0x00e2_c5ff,
    0x00b3_f0ff,
    0x00ff_ffff,
];

/// How text is drawn. Colours are `0xRRGGBB`; none is that of the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) text: Option<u32>,
    pub(super) ground: Option<u32>,
    pub(super) is_bold: bool,
    pub(super) is_dim: bool,
    pub(super) is_reverse: bool,
}

/// A character and the cells that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) column: usize,
    pub(super) width: usize,
    pub(super) char: char,
    pub(super) style: Style,
}

/// The lines of a screen, without blank ones at the end.
pub(super) fn parse(captured: &str) -> Vec<Vec<Cell>> {
    // A style lasts beyond the end of a line.
    let mut style = Style::default();
    let mut lines: Vec<_> = captured.lines().map(|line| parse_line(line, &mut style)).collect();
    let is_blank = |line: &Vec<Cell>| {
        let is_seen = |cell: &Cell| cell.char != ' ' || has_ground(cell.style);
        !line.iter().any(is_seen)
    };
    while lines.last().is_some_and(is_blank) {
        lines.pop();
    }
    lines
}

/// Whether a blank is seen in this style.
pub(super) fn has_ground(style: Style) -> bool {
    style.ground.is_some() || style.is_reverse
}

fn parse_line(line: &str, style: &mut Style) -> Vec<Cell> {
    let (mut cells, mut column) = (Vec::<Cell>::new(), 0);
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            if let Some(numbers) = select_graphic_rendition(&mut chars) {
                style.apply(&numbers);
            }
            continue;
        }
        // Characters without a width of their own are not in what coord prints.
        let Some(width) = char.width().filter(|width| 0 < *width) else { continue };
        cells.push(Cell { column, width, char, style: *style });
        column += width;
    }
    cells
}

/// Reads an escape sequence. Returns its numbers if it sets the style.
fn select_graphic_rendition(chars: &mut std::str::Chars<'_>) -> Option<Vec<u32>> {
    if chars.next() != Some('[') {
        return None;
    }
    let mut parameters = String::new();
    let last = chars.find(|char| {
        let is_parameter = matches!(char, '\u{20}'..='\u{3f}');
        if is_parameter {
            parameters.push(*char);
        }
        !is_parameter
    });
    let numbers = parameters.split([';', ':']).map(|number| number.parse().unwrap_or(0));
    (last == Some('m')).then(|| numbers.collect())
}

impl Style {
    fn apply(&mut self, numbers: &[u32]) {
        let mut numbers = numbers.iter().copied();
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                7 => self.is_reverse = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                27 => self.is_reverse = false,
                30..=37 => self.text = of_256(number - 30),
                38 => self.text = extended(&mut numbers),
                39 => self.text = None,
                40..=47 => self.ground = of_256(number - 40),
                48 => self.ground = extended(&mut numbers),
                49 => self.ground = None,
                90..=97 => self.text = of_256(number - 90 + 8),
                100..=107 => self.ground = of_256(number - 100 + 8),
                _ => (),
            }
        }
    }
}

/// The colour after 38 or 48: one of 256, or red, green and blue.
fn extended(numbers: &mut impl Iterator<Item = u32>) -> Option<u32> {
    match numbers.next()? {
        5 => of_256(numbers.next()?),
        2 => {
            let (red, green, blue) = (numbers.next()?, numbers.next()?, numbers.next()?);
            Some(((red & 0xff) << 16) | ((green & 0xff) << 8) | (blue & 0xff))
        }
        _ => None,
    }
}

/// One of the 256 colours: those with names, a cube of 6 × 6 × 6, and 24 greys.
fn of_256(number: u32) -> Option<u32> {
    match number {
        0..=15 => NAMED.get(usize::try_from(number).ok()?).copied(),
        16..=231 => {
            let level = |step: u32| if step == 0 { 0 } else { 55 + 40 * step };
            let cube = number - 16;
            let (red, green, blue) = (level(cube / 36), level(cube / 6 % 6), level(cube % 6));
            Some((red << 16) | (green << 8) | blue)
        }
        232..=255 => Some((8 + 10 * (number - 232)) * 0x0001_0101),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &[Cell]) -> String {
        line.iter().map(|cell| cell.char).collect()
    }

    #[test]
    fn a_style_lasts_until_it_is_changed() {
        let lines = parse("\u{1b}[1;33mab\u{1b}[0mc\nd\u{1b}[2m\ne\u{1b}[22mf");
        assert_eq!(lines.iter().map(|line| text(line)).collect::<Vec<_>>(), ["abc", "d", "ef"]);
        let bold = Style { text: Some(NAMED[3]), is_bold: true, ..Style::default() };
        let styles: Vec<_> = lines[0].iter().map(|cell| cell.style).collect();
        assert_eq!(styles, [bold, bold, Style::default()]);
        assert!(lines[2][0].style.is_dim && !lines[2][1].style.is_dim);
    }

    #[test]
    fn all_ways_to_name_a_colour_are_known() {
        let colour = |escape: &str| parse(&format!("\u{1b}[{escape}mx"))[0][0].style.text;
        assert_eq!(colour("32"), Some(NAMED[2]));
        assert_eq!(colour("92"), Some(NAMED[10]));
        assert_eq!(colour("38;5;9"), Some(NAMED[9]));
        assert_eq!(colour("38;5;16"), Some(0));
        assert_eq!(colour("38;5;196"), Some(0x00ff_0000));
        assert_eq!(colour("38;5;255"), Some(0x00ee_eeee));
        assert_eq!(colour("38;2;1;2;3"), Some(0x0001_0203));
        assert_eq!(colour("32;39"), None);
        assert_eq!(parse("\u{1b}[7;44mx")[0][0].style.ground, Some(NAMED[4]));
    }

    #[test]
    fn a_wide_character_takes_two_cells_and_other_sequences_none() {
        let line = &parse("a\u{1b}[K漢\u{1b}(Bb")[0];
        let places: Vec<_> = line.iter().map(|cell| (cell.char, cell.column, cell.width)).collect();
        assert_eq!(places[..2], [('a', 0, 1), ('漢', 1, 2)]);
        assert_eq!(places.last().map(|place| (place.0, place.1 >= 3)), Some(('b', true)));
    }

    #[test]
    fn blank_lines_at_the_end_are_dropped_unless_something_is_seen_there() {
        assert_eq!(parse("a\n\n  \n").len(), 1);
        assert_eq!(parse("a\n\n\u{1b}[7m  \u{1b}[0m\n").len(), 3);
    }
}
