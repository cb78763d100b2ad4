//! `portolan crds`: what has to be in a cluster before Portolan's own kinds can be.

use crate::shell::Shell;
use crate::yaml;

/// Prints the definitions.
pub fn crds(shell: Shell) {
    shell.out(yaml::documents(&portolan_fleet::crds()).trim_end());
}
