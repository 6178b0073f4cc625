//! Orders the executables' data by name, which puts the heap last: every page that a hook does not
//! touch is time that an agent does not wait.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A C compiler hands it on; a linker that is called directly takes it as it is.
    let linker = std::env::var("RUSTC_LINKER").unwrap_or_default();
    let prefix = if linker.ends_with("lld") { "" } else { "-Wl," };
    println!("cargo::rustc-link-arg-bins={prefix}--sort-section=name");
}
