//! Puts a terminal right that a crashed client left behind (H-18): its modes off, its lines edited
//! and echoed again. Nothing is cleared, neither the screen nor what scrolled away.

use std::fs::{File, OpenOptions};
use std::io::Write;

use coord_host::process;
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, Termios, tcgetattr,
    tcgetpgrp, tcsetattr,
};

/// In this order: the end of a sequence that was cut, then what the client turned on.
const MODES_OFF: &str = concat!(
    "\x1b\\",
    // A synchronized update would hold back everything.
    "\x1b[?2026l",
    // Mouse, focus, paste, colour-scheme reports.
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l",
    "\x1b[?1004l\x1b[?2004l\x1b[?2031l",
    // Keyboard: kitty's protocol (the alternate screen has a stack of its own), modified keys,
    // cursor keys, keypad.
    "\x1b[<u\x1b[>4m\x1b[?1l\x1b>",
    "\x1b[?1049l",
    "\x1b[<u",
    // Insert mode off, wrapping on, the usual letters, no attributes, the cursor's usual shape.
    "\x1b[4l\x1b[?7h\x1b(B\x0f\x1b[0m\x1b[0 q\x1b[?25h",
    // Leaving a screen that was not the alternate one moves the cursor, and so does resetting the
    // margins: at the bottom nothing is written over.
    "\x1b[r\x1b[999;1H\r\n",
);

/// Restores the controlling terminal. Without one there is nothing to do; in the background it
/// belongs to somebody else.
pub(super) fn restore() {
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else { return };
    let front = tcgetpgrp(&terminal).ok();
    if front.is_none() || front != process::own_group() {
        return;
    }
    // A terminal that refuses is as right as it can be made.
    let _ = edit_lines(&terminal);
    let _ = (&terminal).write_all(MODES_OFF.as_bytes());
}

fn edit_lines(terminal: &File) -> rustix::io::Result<()> {
    let mut modes = tcgetattr(terminal)?;
    set_sane(&mut modes);
    tcsetattr(terminal, OptionalActions::Drain, &modes)
}

/// As `stty sane` has it; the keys that edit a line stay as the user chose them.
fn set_sane(modes: &mut Termios) {
    modes.control_modes |= ControlModes::CREAD;
    modes.input_modes |= InputModes::BRKINT | InputModes::ICRNL | InputModes::IMAXBEL;
    modes.input_modes |= InputModes::IXON;
    modes.input_modes -= InputModes::IGNBRK | InputModes::INLCR | InputModes::IGNCR;
    modes.input_modes -= InputModes::IXOFF | InputModes::IXANY;
    modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    modes.output_modes -= OutputModes::OCRNL | OutputModes::ONOCR | OutputModes::ONLRET;
    modes.local_modes |= LocalModes::ISIG | LocalModes::ICANON | LocalModes::IEXTEN;
    modes.local_modes |= LocalModes::ECHO | LocalModes::ECHOE | LocalModes::ECHOK;
    modes.local_modes |= LocalModes::ECHOCTL | LocalModes::ECHOKE;
    modes.local_modes -= LocalModes::ECHONL | LocalModes::NOFLSH | LocalModes::TOSTOP;
}
