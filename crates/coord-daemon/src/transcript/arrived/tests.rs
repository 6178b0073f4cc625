//! Lines as the real client writes them, and what they prove.
