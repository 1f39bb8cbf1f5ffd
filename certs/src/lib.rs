//! Certificates: their sources behind one resolver.
