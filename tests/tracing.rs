//! A server that does not tell who connects: said once, at error level.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(feature = "tracing")]

use std::sync::{Arc, Mutex};

use http::Request;
use tower_throttle::key::KeyBuf;
use tower_throttle::{KeyExtractor as _, PeerIp};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<(tracing_core::Level, String)>>>);

impl<S: tracing_core::Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &tracing_core::Event<'_>, _: Context<'_, S>) {
        let mut text = String::new();
        event.record(&mut |_: &tracing_core::Field, value: &dyn std::fmt::Debug| text += &format!("{value:?}"));
        self.0.lock().unwrap().push((*event.metadata().level(), text));
    }
}

#[test]
fn a_missing_peer_is_told_once_at_error_level() {
    let events = Events::default();
    let subscriber = tracing_subscriber::registry().with(events.clone());
    tracing_core::dispatcher::with_default(&subscriber.into(), || {
        let by_peer = PeerIp::new();
        let (parts, ()) = Request::new(()).into_parts();
        for _ in 0..5 {
            let _ = by_peer.draw(&parts, &mut KeyBuf::new());
        }
    });
    let events = events.0.lock().unwrap();
    assert_eq!(events.len(), 1, "once");
    let (level, text) = &events[0];
    assert_eq!(*level, tracing_core::Level::ERROR);
    assert!(text.contains("into_make_service_with_connect_info"), "{text}");
}
