//! The messages of etcd's API, version 3, as far as they are needed.

use prost::Message;

/// `etcdserverpb.KV/Range`.
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
/// `etcdserverpb.Lease/LeaseTimeToLive`.
pub(super) const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
/// `etcdserverpb.Auth/Authenticate`.
pub(super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Keys to read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    /// The first one.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// The first one behind them; without it there is one.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    /// How many at most.
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
}

/// Keys that were read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    /// The keys.
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
    /// The number of the lease that it goes with; 0 without one.
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

/// A lease to ask for.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeToLiveRequest {
    /// Its number.
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

/// How long a lease has.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeToLiveResponse {
    /// In seconds; -1 if it is over.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

/// Who asks.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateRequest {
    /// The user.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// The password.
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

/// By what further calls say who asks.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateResponse {
    /// The token.
    #[prost(string, tag = "2")]
    pub(super) token: String,
}
