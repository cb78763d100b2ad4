//! Delta ADS server over snapshots
