//! This machine, for reading the store without a coordinator.

use std::path::Path;

use coord_host::clients::Clients;
use coord_host::here::Here;
use coord_host::registry::Readable;
use coord_host::{process, registry};
use coord_model::{Host, ProcessRef, ProcessSeen, Registry};
use coord_view::offline::Machine;

/// What the process table and the client's registry say now.
#[derive(Debug)]
pub struct ThisMachine<'a> {
    /// Who and where this process is.
    pub here: &'a Here,
    /// Which configuration directories may be read.
    pub readable: Readable,
}

impl Machine for ThisMachine<'_> {
    fn host(&self) -> Host {
        self.here.for_core()
    }

    fn is_client(&self, process: ProcessRef) -> bool {
        process::is_alive(process) && Clients::default().recognize(process).is_ok()
    }

    fn look_at(&self, process: ProcessRef) -> ProcessSeen {
        process::seen(process, process::is_alive(process))
    }

    fn read_registry(&self, config_dir: &Path, process: ProcessRef) -> Registry {
        registry::read(&self.readable, config_dir, process)
    }
}
