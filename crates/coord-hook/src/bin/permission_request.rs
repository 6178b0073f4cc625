//! `coord-hook-permission-request`: reports a permission request, and waits for a reply from elsewhere if it may.
#![no_main]

use coord_hook::{Args, Heap, Program};

#[global_allocator]
static HEAP: Heap = Heap;

#[expect(unsafe_code, reason = "the C library enters a program by this name")]
#[unsafe(no_mangle)]
extern "C" fn main(n: i32, arguments: Args) -> i32 {
    let name = "coord-hook-permission-request";
    coord_hook::enter(&Program { name, start: None, waits_for_reply: true }, n, arguments)
}
