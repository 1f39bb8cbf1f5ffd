//! Our own signatures, checked by what checks those of clients, and the other way round.

use std::time::SystemTime;

use engine::Keyring as _;
use wire::{Name, Request, rtype};

use super::{Key, Keys};

/// The key of both sides.
fn keys() -> (Keys, Key) {
    let name = Name::parse("key.test").unwrap();
    let mut keys = Keys::default();
    keys.0.insert(name.clone(), b"secret".to_vec());
    (keys, Key::new(name, "hmac-sha512", b"secret").unwrap())
}

/// A query for a zone.
fn query() -> Vec<u8> {
    let name = Name::parse("example.org").unwrap();
    let mut query = Vec::new();
    wire::encode_query(&Request { name, rtype: rtype::AXFR, ..Request::default() }, 7, &mut query);
    query
}

/// A signed query, and three messages of its reply, of which those that `signed` says are.
fn talk(signed: [bool; 3]) -> (super::Checker, Vec<Vec<u8>>) {
    let (keys, key) = keys();
    let mut asked = query();
    let at = asked.len();
    let checker = key.sign(&mut asked);
    let mut seal = keys.check(&asked, at, SystemTime::now()).unwrap();
    assert_eq!(seal.broken(), None);
    let mut messages = Vec::new();
    let mut before: Vec<u8> = Vec::new();
    for is_signed in signed {
        let mut message = query();
        message[2] |= 0x80;
        if is_signed && before.is_empty() {
            seal.sign(&mut message, 0);
        } else {
            before = message.clone();
        }
        messages.push(message);
    }
    (checker, messages)
}

#[test]
fn what_we_sign_and_check_is_what_the_other_side_does() {
    let (mut checker, messages) = talk([true, true, true]);
    for message in &messages {
        assert_eq!(checker.check(message), Ok(()));
        assert_eq!(checker.end(), Ok(()));
    }
}

#[test]
fn a_reply_that_is_not_signed_or_was_changed_is_not_believed() {
    let (mut checker, messages) = talk([false, false, false]);
    assert_eq!(checker.check(&messages[0]), Err("the reply is not signed".to_owned()));
    // Messages between may have none, the last one has to.
    let (mut checker, messages) = talk([true, false, false]);
    assert_eq!(checker.check(&messages[0]), Ok(()));
    assert_eq!(checker.check(&messages[1]), Ok(()));
    assert_eq!(checker.end(), Err("the last message is not signed".to_owned()));
    for _ in 1..99 {
        assert_eq!(checker.check(&messages[1]), Ok(()));
    }
    assert!(checker.check(&messages[1]).is_err(), "a hundred in a row");
    // A changed octet, a message that is left out, one that comes twice.
    let (mut checker, mut messages) = talk([true, true, true]);
    messages[0][3] ^= 1;
    assert_eq!(checker.check(&messages[0]), Err("its signature is wrong".to_owned()));
    for order in [[0, 2], [0, 0]] {
        let (mut checker, messages) = talk([true, true, true]);
        assert_eq!(checker.check(&messages[order[0]]), Ok(()));
        assert_eq!(checker.check(&messages[order[1]]), Err("its signature is wrong".to_owned()));
    }
    // Another key, and a server that does not have ours.
    let (keys, _) = keys();
    let other = Key::new(Name::parse("other.test").unwrap(), "hmac-sha256", b"secret").unwrap();
    let mut asked = query();
    let at = asked.len();
    let mut checker = other.sign(&mut asked);
    assert_eq!(checker.check(&messages[0]), Err("the reply is signed with another key".to_owned()));
    let mut refused = query();
    keys.unknown(&asked, at, SystemTime::now()).sign(&mut refused, 0);
    let wrong = checker.check(&refused).unwrap_err();
    assert!(wrong.contains("BADKEY"), "{wrong}");
    // Cut and random octets.
    for len in 0..messages[1].len() {
        let (mut checker, messages) = talk([true, true, true]);
        assert!(checker.check(&messages[0][..len]).is_err(), "{len}");
    }
}
