//! Has the kernel map the first part of the heap in one call. A verb runs for less than a millisecond, and took a page
//! fault for each of its first 50 pages, which cost more than its instructions.
#![expect(unsafe_code, reason = "advice about memory that was just allocated")]

use rustix::mm::{Advice, madvise};

/// What a verb needs of the heap, in bytes; all of it is below what the allocator keeps when it is freed.
const BYTES: usize = 96 * 1024;
/// Size of a page; the kernel refuses advice about a part of one.
const PAGE: usize = 4096;

/// Maps the first pages of the heap.
pub(crate) fn heap() {
    let block = Vec::<u8>::with_capacity(BYTES);
    let skipped = block.as_ptr().align_offset(PAGE).min(BYTES);
    let len = (BYTES - skipped) / PAGE * PAGE;
    let start = block.as_ptr().wrapping_add(skipped).cast_mut().cast();
    // SAFETY: the pages lie inside of the block, and mapping them changes nothing that they contain.
    let _older_kernels_refuse = unsafe { madvise(start, len, Advice::LinuxPopulateWrite) };
}
