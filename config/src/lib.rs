//! The Corefile and the process settings: text in, checked words out.
