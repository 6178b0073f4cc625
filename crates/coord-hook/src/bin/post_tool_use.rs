//! `coord-hook-post-tool-use`: reports PostToolUse.
#![no_main]

use coord_hook::{Args, Heap, Program};

#[global_allocator]
static HEAP: Heap = Heap;

#[expect(unsafe_code, reason = "the C library enters a program by this name")]
#[unsafe(no_mangle)]
extern "C" fn main(n: i32, arguments: Args) -> i32 {
    coord_hook::enter(
        &Program { name: "coord-hook-post-tool-use", start: None, waits_for_reply: false },
        n,
        arguments,
    )
}
