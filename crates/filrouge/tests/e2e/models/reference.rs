//! Reference data of the model: the token ids of its own tokenizer, and questions with the messages that answer them.

/// The token ids that mark the start and the end of a text.
pub(super) const START: i32 = 101;
pub(super) const END: i32 = 102;

/// Texts and their token ids between [`START`] and [`END`]; from Python's `tokenizers` 0.23.3 with the model's
/// `tokenizer.json`.
pub(super) const PIECES: &[(&str, &[i32])] = &[
    ("Hello, world!", &[7592, 1010, 2088, 999]),
    (
        "Crème brûlée à la française; naïve façade",
        &[
            13675, 21382, 7987, 9307, 2063, 1037, 2474, 18427, 1025, 15743, 8508,
        ],
    ),
    (
        "snake_case camelCase kebab-case HTTPServer /usr/local/bin/filrouge.rs",
        &[
            7488, 1035, 2553, 19130, 18382, 17710, 3676, 2497, 1011, 2553, 16770, 2121, 6299, 1013,
            2149, 2099, 1013, 2334, 1013, 8026, 1013, 10882, 20974, 7140, 3351, 1012, 12667,
        ],
    ),
    (
        "数据库迁移失败了吗",
        &[100, 100, 100, 100, 100, 100, 100, 100, 100],
    ),
    (
        "日本語のテキストと English を mix",
        &[
            1864, 1876, 1950, 1671, 30239, 30227, 30233, 30240, 30192, 2394, 1690, 4666,
        ],
    ),
    (
        "emoji 👩\u{200d}🚒 and 🎉 party",
        &[7861, 29147, 2072, 100, 1998, 100, 2283],
    ),
    (
        "don't can't it's",
        &[2123, 1005, 1056, 2064, 1005, 1056, 2009, 1005, 1055],
    ),
    (
        "zero\u{200b}width\u{ad}soft\u{2060}joiner",
        &[5717, 9148, 11927, 7898, 15794, 5558, 26455],
    ),
    (
        "tabs\tand\nnewlines\r\nmixed\u{a0}nbsp\u{3000}ideographic",
        &[
            21628, 2015, 1998, 2047, 12735, 3816, 1050, 5910, 2361, 8909, 8780, 14773,
        ],
    ),
    (
        "¿Qué pasó? “quotes” — dash… ‘single’",
        &[
            1094, 10861, 17161, 1029, 1523, 16614, 1524, 1517, 11454, 1529, 1520, 2309, 1521,
        ],
    ),
    (
        "हिन्दी में लिखा",
        &[
            1339, 29877, 29863, 29861, 29878, 1331, 1334, 29877, 29852, 29876,
        ],
    ),
    (
        "Привет, мир! Ёлка",
        &[
            1194, 16856, 10325, 25529, 15290, 22919, 1010, 1191, 10325, 16856, 999, 1185, 29436,
            28598,
        ],
    ),
    (
        "العربية م\u{64e}ر\u{652}ح\u{64e}ب\u{64b}ا",
        &[
            1270, 23673, 29830, 17149, 29816, 14498, 19433, 1295, 17149, 29820, 29816, 25573,
        ],
    ),
    ("e\u{301} vs é", &[1041, 5443, 1041]),
    (
        "1,000,000.50€ £5 ¥7",
        &[
            1015, 1010, 2199, 1010, 2199, 1012, 2753, 30102, 27813, 1071, 2581,
        ],
    ),
    (
        "unaffable embeddings tokenization",
        &[14477, 20961, 3468, 7861, 8270, 4667, 2015, 19204, 3989],
    ),
];

/// A question, and the message that answers it in other words.
pub(super) const ANSWERS: [(&str, &str); 12] = [
    (
        "how do I undo my last commit",
        "run git reset --soft HEAD~1 to take the most recent change back",
    ),
    (
        "the app is slow to start",
        "launching takes eleven seconds because every plugin is loaded eagerly",
    ),
    (
        "rotate the signing secret",
        "we replaced the old private key and revoked its predecessor",
    ),
    (
        "disk ran out of space",
        "no room left on the volume, so old backups were deleted",
    ),
    (
        "users cannot log in",
        "authentication fails for customers since the certificate expired",
    ),
    (
        "make the colors darker",
        "the theme now uses a deeper palette for night mode",
    ),
    (
        "flaky tests on the build server",
        "the pipeline fails at random when two jobs share a port",
    ),
    (
        "email customers about the outage",
        "send a notification to subscribers explaining the downtime",
    ),
    (
        "translate the page into Spanish",
        "add a locale for speakers in Madrid and Mexico",
    ),
    (
        "memory keeps growing",
        "the process leaks: its heap doubles every hour",
    ),
    (
        "who changed the price",
        "the audit trail says the cost was edited by Anna on Monday",
    ),
    (
        "convert a picture to a smaller file",
        "compress the image as webp to save bytes",
    ),
];
