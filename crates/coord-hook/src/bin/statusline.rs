//! `coord-hook-statusline`: runs the user's status line, and reports the numbers that the client gave to it.
#![no_main]

use coord_hook::{Args, Heap};

#[global_allocator]
static HEAP: Heap = Heap;

#[expect(unsafe_code, reason = "the C library enters a program by this name")]
#[unsafe(no_mangle)]
extern "C" fn main(n: i32, arguments: Args) -> i32 {
    coord_hook::enter_status_line(n, arguments)
}
