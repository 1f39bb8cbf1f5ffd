//! DNS messages as wire bytes: names, requests, EDNS, answers. No I/O.
