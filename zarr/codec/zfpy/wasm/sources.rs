//! Empty: the crate only names its dependency.
