//! The commands that read manifests once.

pub mod bootstrap;
mod check;
mod crds;
mod explain;
pub mod translate;
mod version;

pub use bootstrap::bootstrap;
pub use check::check;
pub use crds::crds;
pub use explain::explain;
pub use translate::translate;
pub use version::version;
