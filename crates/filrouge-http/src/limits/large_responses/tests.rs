use filrouge_store::{FairSlots, SlotBounds, WorkSize};
use http_body_util::BodyExt;
use tempfile::TempDir;

use super::*;

/// A permit that has the only slot. Memory and files have room for these numbers of bytes.
fn permit(memory: usize, files: usize) -> (FairSlots, LargeResponsePermit, TempDir) {
    let slots = FairSlots::new(SlotBounds::without_shares(1));
    let slot = slots.try_acquire(&("key", "ann"), WorkSize::Large).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let places = UnreadPlaces {
        memory: Budget::without_shares(memory),
        files: Budget::without_shares(files),
        folder: Some(folder.path().to_owned()),
    };
    let permit = LargeResponsePermit::new(slot, Default::default(), Arc::new(places));
    (slots, permit, folder)
}

fn text() -> Vec<u8> {
    (0..=2 * FRAME_MAX).map(|n| (n % 251) as u8).collect()
}

/// Reads a response in small frames; returns its text and its last frame.
async fn read(mut response: UnreadResponse, length: usize) -> (Vec<u8>, Bytes) {
    let (mut received, mut last_frame) = (Vec::new(), Bytes::new());
    while let Some(frame) = response.frame().await {
        last_frame = frame.unwrap().into_data().unwrap();
        assert!(last_frame.len() <= FRAME_MAX);
        received.extend_from_slice(&last_frame);
        let remaining = (length - received.len()) as u64;
        assert_eq!(HttpBody::size_hint(&response).exact(), Some(remaining));
    }
    assert!(response.is_end_stream());
    (received, last_frame)
}

#[tokio::test]
async fn a_built_response_is_kept_in_memory_without_its_permit() {
    let text = text();
    let (slots, permit, _folder) = permit(text.len(), 0);
    let places = permit.places.clone();
    let response = permit.hold(text.clone()).await.unwrap();
    assert_eq!((slots.held(), places.memory.used()), (0, text.len()));
    let (received, last_frame) = read(response, text.len()).await;
    assert!(received == text);
    assert_eq!(
        places.memory.used(),
        text.len(),
        "its bytes are still in memory"
    );
    drop(last_frame);
    assert!(places.is_empty());
}

#[tokio::test]
async fn without_room_in_memory_a_response_is_kept_in_a_file_without_a_name() {
    let text = text();
    let (slots, permit, folder) = permit(text.len() - 1, text.len());
    let places = permit.places.clone();
    let response = permit.hold(text.clone()).await.unwrap();
    assert_eq!((slots.held(), places.files.used()), (0, text.len()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let (received, _) = read(response, text.len()).await;
    assert!(received == text && places.is_empty());
}

#[tokio::test]
async fn without_any_room_a_response_is_refused() {
    let (slots, permit, _folder) = permit(1, 3);
    let places = permit.places.clone();
    let refused = permit.hold("text").await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::Overloaded);
    assert!(refused.hint.is_some());
    assert!(places.is_empty());
    assert_eq!(slots.held(), 0);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_reported() {
    let (slots, permit, folder) = permit(1, 4);
    let places = permit.places.clone();
    let path = folder.path().to_owned();
    drop(folder);
    std::fs::write(&path, "no folder").unwrap();
    let refused = permit.hold("text").await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::Overloaded);
    assert!(places.is_empty());
    assert_eq!(slots.held(), 0);
    std::fs::remove_file(path).unwrap();
    let full = file_failure(&io::ErrorKind::StorageFull.into());
    assert_eq!(full.code, ErrorCode::StoreFull);
}
