//! File descriptors of this process and of the Envoys that it starts.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files as far as this user may. The usual 1,024 is for programs that call select(2); each Gateway takes three
/// descriptors here, and each connection two of its Envoy, which inherits the limit.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_as_allowed_can_be_open() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let low = Some(maximum.unwrap_or(1024).min(1024));
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: low, maximum }).unwrap();
        raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
