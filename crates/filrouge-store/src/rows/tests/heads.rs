//! Tests of the formats of heads.

use super::*;

#[test]
fn a_head_with_a_lease_or_checkpoints_is_encoded_in_format_3_or_4() {
    let now = Timestamp::from_micros(7);
    let plain = HeadRow::empty([9; 16], now);
    let encoded = |head: &HeadRow| head.clone().sealed(&test_keyring(), 1).encode();
    let format_1 = encoded(&plain);
    assert_eq!(format_1.len(), 1 + 4 + 4 + 32 + 8 + 16 + 16);
    let leased = HeadRow {
        lease: HeadLease {
            fence: 300,
            holder: "me".into(),
            server: "here".into(),
            expires_at: now,
            ttl: Duration::from_micros(2),
            since: Timestamp::from_micros(3),
        },
        ..plain.clone()
    };
    let with_checkpoints = HeadRow {
        checkpoints: HeadCheckpoints {
            count: 2,
            newest: 5,
            ..HeadCheckpoints::default()
        },
        ..plain.clone()
    };
    let redacted = HeadRow {
        checkpoints: HeadCheckpoints {
            redacted: 4,
            ..HeadCheckpoints::default()
        },
        ..plain.clone()
    };
    // The extension is inserted before the MAC of 16 bytes.
    let mac_offset = format_1.len() - 16;
    for (head, extension) in [
        (
            &leased,
            &[
                0xac, 2, 2, b'm', b'e', 4, b'h', b'e', b'r', b'e', 0, 0, 0, 0, 0, 0, 0, 7, 2, 0, 0,
                0, 0, 0, 0, 0, 3, 0, 0, 0,
            ][..],
        ),
        (&with_checkpoints, &[&[0; 20][..], &[2, 5, 0]].concat()),
        (&redacted, &[&[0; 20][..], &[0, 0, 4]].concat()),
    ] {
        let bytes = encoded(head);
        assert_eq!((bytes[0], format_1[0]), (3, 1));
        assert_eq!(bytes[1..mac_offset], format_1[1..mac_offset]);
        assert_eq!(&bytes[mac_offset..bytes.len() - 16], extension);
        let adopted = HeadRow {
            adopted: true,
            ..head.clone()
        };
        assert_eq!(encoded(&adopted)[0], 4);
    }
}

#[test]
fn a_head_names_its_eight_newest_summaries_in_format_5_or_6() {
    let mut head = HeadRow::empty([9; 16], Timestamp::from_micros(7));
    (1..=10).for_each(|seq| head.add_summary(seq));
    assert_eq!(head.summaries, [3, 4, 5, 6, 7, 8, 9, 10]);
    for (adopted, format) in [(false, 5), (true, 6)] {
        let head = HeadRow {
            adopted,
            ..head.clone()
        };
        let bytes = head.sealed(&test_keyring(), 1).encode();
        assert_eq!(bytes[0], format);
        assert_eq!(
            bytes[bytes.len() - 25..bytes.len() - 16],
            [8, 3, 4, 5, 6, 7, 8, 9, 10]
        );
        assert!(HeadRow::decode(&bytes).is_some());
    }
}

#[test]
fn a_head_that_names_its_checkpoints_is_encoded_in_formats_7_to_10() {
    let mut head = HeadRow::empty([9; 16], Timestamp::from_micros(7));
    let named = |(seq, tag)| NamedCheckpoint { seq, tag: [tag; 4] };
    let named: Vec<_> = [(0, 1), (5, 2), (300, 3)].map(named).into();
    head.checkpoints.set(named.clone());
    let expected = [
        3, 0xac, 2, 0, 0, 1, 1, 1, 1, 5, 2, 2, 2, 2, 0xa7, 2, 3, 3, 3, 3,
    ];
    for (adopted, summaries, format) in [(false, 0, 7), (true, 0, 8), (false, 2, 9), (true, 2, 10)]
    {
        let mut head = HeadRow {
            adopted,
            ..head.clone()
        };
        (1..=summaries).for_each(|seq| head.add_summary(seq));
        let bytes = head.sealed(&test_keyring(), 1).encode();
        assert_eq!(bytes[0], format);
        let summary_bytes = if summaries == 0 { 0 } else { 3 };
        let end = bytes.len() - 16 - summary_bytes;
        assert_eq!(bytes[end - expected.len()..end], expected);
        assert_eq!(HeadRow::decode(&bytes).unwrap().checkpoints.named, named);
    }
    // A head without checkpoints has no second encoding.
    head.checkpoints.set(Vec::new());
    head.checkpoints.redacted = 4;
    let mut bytes = head.sealed(&test_keyring(), 1).encode();
    assert_eq!(bytes[0], 3);
    bytes[0] = 7;
    assert_eq!(HeadRow::decode(&bytes), None);
}
