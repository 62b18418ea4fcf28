//! Arbitrary bytes on the socket of `flowctl run`: parsing does not panic, a parsed request survives a round trip, and errors are short
//! and without control characters.
#![no_main]

use flowcon::host::scope::{ScopeName, protocol};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| match protocol::request(line) {
    Ok(request) => {
        let written = serde_json::to_vec(&request).expect("a request can be written");
        if written.len() <= protocol::LONGEST_LINE {
            assert_eq!(protocol::request(&written), Ok(request.clone()));
        }
        if let protocol::Request::Register(registration) = request {
            if let Ok(name) = ScopeName::new(&registration.name) {
                assert!(!name.cgroup().contains('/') && name.unit().len() < 128);
            }
            let _ = flowcon::config::labels::for_everybody(&registration.labels, "bob");
        }
    }
    Err(why) => assert!(why.len() <= 1024 && !why.contains(|c: char| c.is_control())),
});
