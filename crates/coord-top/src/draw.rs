//! Draws what is shown, at any size. Every text from elsewhere is escaped and fitted here (H-26, H-51).

use coord_view::list::{Row, Tone, Widths, age};
use coord_view::text::{escape, fit_end_marked, fit_marked, pad, wrapped};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use crate::Options;
use crate::app::{App, Mode, Pager};
use crate::rows::Placed;

/// From this many columns on, the details stand beside the list.
const BESIDE_FROM: u16 = 110;
/// Columns of the list beside the details.
const LIST_BESIDE: u16 = 72;
/// Below this many columns or rows, there is only a short list.
const SMALL_COLUMNS: u16 = 60;
const SMALL_ROWS: u16 = 16;
/// Rows of the details below the list.
const DETAILS_BELOW: u16 = 6;
/// Columns of the name of a detail.
const DETAIL_NAME: u16 = 11;
/// Columns of the clock, as in 14:12.
const CLOCK: u16 = 5;

const KEYS: [(&str, &str); 15] = [
    ("j k ↓ ↑", "move"),
    ("g G", "first, last"),
    ("Ctrl-d Ctrl-u", "ten rows down, up"),
    ("Enter", "go to its pane; top keeps running"),
    ("n b", "go to the one that waits longest; return"),
    ("/ Esc", "filter by name, state, directory or context>80; all again"),
    ("e v", "explain; events"),
    ("p", "its screen, read-only"),
    ("m", "send it a message"),
    ("s", "group by directory"),
    ("o", "order by context, by cost"),
    ("R H", "recover, hold (in coordctl top)"),
    ("a d 1-9", "answer (in coordctl top)"),
    ("Ctrl-z", "suspend"),
    ("q", "quit"),
];

/// Draws everything.
pub(crate) fn draw(app: &mut App, options: Options, area: Rect, buffer: &mut Buffer) {
    Pen { options, buffer }.screen(app, area);
}

struct Pen<'a> {
    options: Options,
    buffer: &'a mut Buffer,
}

impl Pen<'_> {
    fn screen(&mut self, app: &mut App, area: Rect) {
        if area.width == 0 || area.height < 3 {
            return;
        }
        let is_small = area.width < SMALL_COLUMNS || area.height < SMALL_ROWS;
        self.header(app, area, is_small);
        let last = area.height - 1;
        match &app.mode {
            Mode::Pager(pager) => self.pager(pager, at_rows(area, 1, last)),
            Mode::Keys => self.keys(at_rows(area, 1, last)),
            Mode::List | Mode::Filter(_) | Mode::Message { .. } | Mode::Confirm { .. } => {
                self.body(app, area, is_small);
            }
        }
        self.footer(app, at_rows(area, last, area.height), is_small);
    }

    fn body(&mut self, app: &mut App, area: Rect, is_small: bool) {
        let last = area.height - 1;
        if app.rows.all().is_empty() {
            let words = if app.rows.filter().is_empty() {
                app.nothing.clone()
            } else {
                format!("Nothing matches {:?}. Esc shows all.", app.rows.filter())
            };
            return self.text(area, 1, 2, &words, Style::new());
        }
        if is_small {
            self.list(app, at_rows(area, 1, last - 1), true);
            let selected = app.rows.selected();
            let words = selected.map_or_else(String::new, |row| {
                let parts = [row.what.as_str(), row.place.as_str()];
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                parts.collect::<Vec<_>>().join(&format!(" {} ", self.dot()))
            });
            return self.text(area, last - 1, 0, &words, self.dim());
        }
        if BESIDE_FROM <= area.width {
            let body = at_rows(area, 1, last);
            self.list(app, Rect { width: LIST_BESIDE, ..body }, false);
            for y in body.top()..body.bottom() {
                let at = Rect { y, height: 1, ..body };
                self.text(at, 0, LIST_BESIDE, self.sign("│", "|"), self.dim());
            }
            let (x, width) = (body.x + LIST_BESIDE + 2, body.width - LIST_BESIDE - 2);
            return self.details(app, Rect { x, width, ..body });
        }
        let below = last - DETAILS_BELOW;
        self.list(app, at_rows(area, 1, below - 1), false);
        let rule = self.sign("─", "-").repeat(usize::from(area.width));
        self.text(area, below - 1, 0, &rule, self.dim());
        self.details(app, at_rows(area, below, last));
    }

    fn header(&mut self, app: &App, area: Rect, is_small: bool) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if let Some(at) = &app.lost_at {
            let words =
                format!("Coordinator lost at {at}; retrying. Shown is what was known then.");
            return self.text(area, 0, 0, &words, self.tone(Tone::Red).patch(bold));
        }
        let summary = app.list.summary(self.dot());
        if is_small {
            return self.text(area, 0, 0, &summary, bold);
        }
        let clock_at = area.width.saturating_sub(CLOCK);
        let before = Rect { width: clock_at.saturating_sub(1), ..area };
        self.text(before, 0, 0, &format!("{}   {summary}", app.name), bold);
        self.text(area, 0, clock_at, &app.clock, Style::new());
    }

    fn footer(&mut self, app: &App, area: Rect, is_small: bool) {
        let dot = self.dot();
        let words = match &app.mode {
            Mode::Filter(text) => format!("/{text}_"),
            Mode::Message { name, text, .. } => {
                let shown = format!("message to {name}: {text}_");
                let width = usize::from(area.width);
                return self.text(area, 0, 0, &self.fit_end(&escape(&shown), width), Style::new());
            }
            Mode::Confirm { what, .. } => format!("{what}? Enter does it, any other key does not"),
            Mode::Pager(_) => format!("j k move {dot} q back to the list"),
            Mode::Keys => "any key: back to the list".to_owned(),
            Mode::List => match &app.notice {
                Some(notice) => notice.clone(),
                None if is_small => format!("Enter go {dot} ? keys {dot} q quit"),
                None => [
                    self.sign("↑↓ move", "jk move"),
                    "Enter go",
                    "e explain",
                    "m message",
                    "p screen",
                    "/ find",
                    "? keys",
                    "q quit",
                ]
                .join(&format!(" {dot} ")),
            },
        };
        self.text(area, 0, 0, &words, Style::new());
    }

    fn list(&mut self, app: &mut App, area: Rect, is_small: bool) {
        let all: Vec<Row> = app.rows.all().iter().map(|one| one.row.clone()).collect();
        let widths = widths(&all, usize::from(area.width), is_small);
        let mut y = 0;
        if !is_small {
            let head = line(&widths, ["NAME", "STATE", "AGE", "WHERE", "WHAT"]);
            let bold = Style::new().add_modifier(Modifier::BOLD);
            self.text(area, 0, 2, &head, bold);
            y = 1;
        }
        let height = usize::from(area.height.saturating_sub(y));
        let at = app.rows.at();
        let shown: Vec<Placed> = app.rows.all().to_vec();
        let heights = |from: usize| {
            let heads = if is_small { 0 } else { heads(&shown, from, at) };
            at - from + 1 + heads <= height
        };
        let top = app.rows.scroll(heights);
        let mut head = None;
        for (n, one) in shown.iter().enumerate().skip(top) {
            if !is_small && head != Some(&one.head) {
                let bold = Style::new().add_modifier(Modifier::BOLD);
                self.text(area, y, 0, &one.head, bold);
                y += 1;
            }
            head = Some(&one.head);
            self.row(&one.row, &widths, n == at, app.lost_at.is_some(), (area, y));
            y += 1;
        }
        if 0 < app.list.more && app.rows.filter().is_empty() {
            let words = format!("{} more ended", app.list.more);
            self.text(area, y, 2, &words, self.dim());
        }
    }

    fn row(&mut self, row: &Row, widths: &Widths, is_at: bool, is_lost: bool, at: (Rect, u16)) {
        let (area, y) = at;
        let name = self.fit(&escape(&row.name), widths.name);
        let place = self.fit_end(&escape(&row.place), widths.place);
        let what = self.fit(&escape(&row.what), widths.what);
        let text = line(widths, [&name, &row.state, &age(row.age_s), &place, &what]);
        let mut style = if is_lost { self.dim() } else { Style::new() };
        if is_at {
            style = style.add_modifier(Modifier::REVERSED);
        }
        let sign = if is_at { ">" } else { row.sign(self.options.is_ascii) };
        let columns = usize::from(area.width.saturating_sub(2));
        self.text(area, y, 0, sign, self.tone(row.tone));
        self.text(area, y, 2, &pad(&text, columns, false), style);
    }

    fn details(&mut self, app: &App, area: Rect) {
        let Some(row) = app.rows.selected() else { return };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let title = format!("{}  {} for {}", row.name, row.state, age(row.age_s));
        self.text(area, 0, 0, &title, bold.patch(self.tone(row.tone)));
        let columns = usize::from(area.width.saturating_sub(DETAIL_NAME));
        let mut y = 1;
        for (name, words) in &app.details {
            let mut name = name.as_str();
            for words in wrapped(&escape(words), columns) {
                if area.height <= y {
                    return;
                }
                self.text(area, y, 0, name, self.dim());
                self.text(area, y, DETAIL_NAME, &words, Style::new());
                name = "";
                y += 1;
            }
        }
    }

    fn pager(&mut self, pager: &Pager, area: Rect) {
        let read = pager.read_at.map(|at| format!(", {} ago", age(at.elapsed().as_secs())));
        let title = format!("{}{}", pager.title, read.unwrap_or_default());
        self.text(area, 0, 0, &title, Style::new().add_modifier(Modifier::BOLD));
        let shown = pager.lines.iter().skip(pager.top);
        for (y, words) in (1..area.height).zip(shown) {
            self.text(area, y, 0, words, Style::new());
        }
    }

    fn keys(&mut self, area: Rect) {
        for (y, (keys, what)) in (0..area.height).zip(KEYS) {
            let keys =
                if self.options.is_ascii { keys.replace(" ↓ ↑", "") } else { keys.to_owned() };
            self.text(area, y, 2, &keys, Style::new().add_modifier(Modifier::BOLD));
            self.text(area, y, 18, what, Style::new());
        }
    }

    /// Writes a text into one row of an area, as far as it fits.
    fn text(&mut self, area: Rect, y: u16, x: u16, text: &str, style: Style) {
        if area.height <= y || area.width <= x {
            return;
        }
        let width = usize::from(area.width - x);
        let mut text = escape(text);
        if self.options.is_ascii {
            // The signs of our own words; names stay as they are.
            text = text.replace('→', "->").replace('·', "-");
        }
        let text = self.fit(&text, width);
        self.buffer.set_stringn(area.x + x, area.y + y, text, width, style);
    }

    fn fit(&self, text: &str, width: usize) -> String {
        fit_marked(text, width, self.sign("…", ".."))
    }

    fn fit_end(&self, text: &str, width: usize) -> String {
        fit_end_marked(text, width, self.sign("…", ".."))
    }

    fn dot(&self) -> &'static str {
        self.sign("·", "-")
    }

    fn sign(&self, own: &'static str, ascii: &'static str) -> &'static str {
        if self.options.is_ascii { ascii } else { own }
    }

    fn dim(&self) -> Style {
        self.tone(Tone::Dim)
    }

    fn tone(&self, tone: Tone) -> Style {
        let colour = match tone {
            Tone::Plain => return Style::new(),
            Tone::Dim => return Style::new().add_modifier(Modifier::DIM),
            Tone::Green => Color::Green,
            Tone::Yellow => Color::Yellow,
            Tone::Red => Color::Red,
        };
        if self.options.is_colourless { Style::new() } else { Style::new().fg(colour) }
    }
}

/// Some rows of an area, the last one not included.
fn at_rows(area: Rect, from: u16, to: u16) -> Rect {
    Rect { y: area.y + from, height: to.saturating_sub(from), ..area }
}

/// The heads that are drawn with the rows from one to another.
fn heads(rows: &[Placed], from: usize, to: usize) -> usize {
    let mut head = None;
    let shown = rows.get(from..=to).unwrap_or_default().iter();
    shown.filter(|one| head.replace(&one.head) != Some(&one.head)).count()
}

/// The widths of the columns. A short list has only name, state and age; a long one has all, however narrow.
fn widths(rows: &[Row], total: usize, is_small: bool) -> Widths {
    if is_small {
        return Widths { place: 0, what: 0, ..Widths::of(rows, total) };
    }
    let all = Widths::of(rows, total.max(Widths::ALL_FROM));
    Widths { what: all.what.saturating_sub(Widths::ALL_FROM.saturating_sub(total)), ..all }
}

fn line(widths: &Widths, [name, state, age, place, what]: [&str; 5]) -> String {
    let mut cells = vec![
        pad(name, widths.name, false),
        pad(state, widths.state, false),
        pad(age, widths.age, true),
    ];
    if 0 < widths.place {
        cells.push(pad(place, widths.place, false));
    }
    if 0 < widths.what {
        cells.push(what.to_owned());
    }
    cells.join("  ")
}
