//! The shapes of credentials: their names and anchors, and a table of the simple shapes, which are a prefix and one run
//! of characters.

use super::read::Class;

macro_rules! shapes {
    ($($variant:ident $name:literal),+ $(,)?) => {
        /// A kind of credential.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Shape { $($variant),+ }

        impl Shape {
            /// All shapes.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name of the shape in its mask.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The mask that replaces a credential.
            pub(crate) const fn mask(self) -> &'static str {
                match self { $(Self::$variant => concat!("[masked:", $name, "]")),+ }
            }
        }
    };
}

shapes! {
    GithubToken "github_token",
    GitlabToken "gitlab_token",
    SlackToken "slack_token",
    SlackWebhook "slack_webhook",
    OpenaiKey "openai_key",
    AnthropicKey "anthropic_key",
    OpenrouterKey "openrouter_key",
    XaiKey "xai_key",
    GroqKey "groq_key",
    PerplexityKey "perplexity_key",
    AwsAccessKeyId "aws_access_key_id",
    AwsSecretKey "aws_secret_key",
    GoogleApiKey "google_api_key",
    GoogleOauth "google_oauth",
    AzureKey "azure_key",
    StripeKey "stripe_key",
    WebhookSecret "webhook_secret",
    TwilioKey "twilio_key",
    SendgridKey "sendgrid_key",
    MailgunKey "mailgun_key",
    NpmToken "npm_token",
    PypiToken "pypi_token",
    HuggingfaceToken "huggingface_token",
    DigitaloceanToken "digitalocean_token",
    ShopifyToken "shopify_token",
    TelegramToken "telegram_token",
    DiscordToken "discord_token",
    FilrougeKey "filrouge_key",
    Jwt "jwt",
    PrivateKey "private_key",
    BearerToken "bearer_token",
    BasicAuth "basic_auth",
    UrlPassword "url_password",
    RuntimeContext "runtime_context",
}

/// Which function judges the text at an anchor (see `scan.rs`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A simple shape; the number is its row in [`SIMPLE`].
    Simple(usize),
    Sk,
    Slack,
    SlackApp,
    SlackWebhook,
    SendGrid,
    Telegram,
    Filrouge,
    AwsSecret,
    StorageKey,
    Bearer,
    Basic,
    Url,
    Jwt,
    Pem,
}

/// A simple shape: a prefix that ends with the anchor, and one run of characters.
pub(super) struct Simple {
    pub(super) shape: Shape,
    /// The number of bytes of the prefix that precede the anchor.
    pub(super) back: usize,
    /// The bytes that may precede the anchor there; if empty, any.
    pub(super) before: &'static [&'static [u8]],
    pub(super) class: Class,
    /// The minimum number of characters of the run.
    pub(super) least: usize,
    /// The maximum number of characters of the run: equal to `least`, or unbounded.
    pub(super) most: usize,
}

const fn exactly(shape: Shape, class: Class, count: usize) -> Simple {
    Simple {
        shape,
        back: 0,
        before: &[],
        class,
        least: count,
        most: count,
    }
}

const fn at_least(shape: Shape, class: Class, count: usize) -> Simple {
    Simple {
        most: usize::MAX,
        ..exactly(shape, class, count)
    }
}

/// The simple shapes. Lengths and alphabets are as the issuers document them, or else as observed in their tokens.
pub(super) const SIMPLE: &[Simple] = &[
    // Today 36 characters follow `ghp_` and the like; GitHub has announced longer tokens.
    at_least(Shape::GithubToken, Class::Word, 36),
    at_least(Shape::GithubToken, Class::Word, 22),
    at_least(Shape::GitlabToken, Class::Dotted, 20),
    exactly(Shape::AwsAccessKeyId, Class::Upper, 16),
    exactly(Shape::GoogleApiKey, Class::Url, 35),
    at_least(Shape::GoogleOauth, Class::Dotted, 20),
    exactly(Shape::GoogleOauth, Class::Url, 28),
    Simple {
        back: 2,
        before: &[b"sk", b"rk"],
        ..at_least(Shape::StripeKey, Class::Alnum, 16)
    },
    at_least(Shape::WebhookSecret, Class::Base64, 24),
    at_least(Shape::NpmToken, Class::Alnum, 36),
    at_least(Shape::PypiToken, Class::Url, 50),
    at_least(Shape::HuggingfaceToken, Class::Alnum, 30),
    Simple {
        back: 3,
        before: &[b"dop", b"doo", b"dor"],
        ..exactly(Shape::DigitaloceanToken, Class::Hex, 64)
    },
    exactly(Shape::ShopifyToken, Class::Hex, 32),
    exactly(Shape::MailgunKey, Class::Hex, 32),
    at_least(Shape::XaiKey, Class::Alnum, 60),
    at_least(Shape::GroqKey, Class::Alnum, 40),
    at_least(Shape::PerplexityKey, Class::Alnum, 40),
];

/// The anchors, and how the text at each one is judged. No anchor is a prefix of another.
pub(super) const ANCHORS: &[(&str, Kind)] = &[
    ("ghp_", Kind::Simple(0)),
    ("gho_", Kind::Simple(0)),
    ("ghu_", Kind::Simple(0)),
    ("ghs_", Kind::Simple(0)),
    ("ghr_", Kind::Simple(0)),
    ("github_pat_", Kind::Simple(1)),
    ("glpat-", Kind::Simple(2)),
    ("gldt-", Kind::Simple(2)),
    ("glrt-", Kind::Simple(2)),
    ("glptt-", Kind::Simple(2)),
    ("AKIA", Kind::Simple(3)),
    ("ASIA", Kind::Simple(3)),
    ("AIza", Kind::Simple(4)),
    ("ya29.", Kind::Simple(5)),
    ("GOCSPX-", Kind::Simple(6)),
    ("_live_", Kind::Simple(7)),
    ("_test_", Kind::Simple(7)),
    ("whsec_", Kind::Simple(8)),
    ("npm_", Kind::Simple(9)),
    ("pypi-AgE", Kind::Simple(10)),
    ("hf_", Kind::Simple(11)),
    ("_v1_", Kind::Simple(12)),
    ("shpat_", Kind::Simple(13)),
    ("shpca_", Kind::Simple(13)),
    ("shppa_", Kind::Simple(13)),
    ("shpss_", Kind::Simple(13)),
    ("key-", Kind::Simple(14)),
    ("xai-", Kind::Simple(15)),
    ("gsk_", Kind::Simple(16)),
    ("pplx-", Kind::Simple(17)),
    ("sk-", Kind::Sk),
    ("xox", Kind::Slack),
    ("xapp-", Kind::SlackApp),
    ("hooks.slack.com", Kind::SlackWebhook),
    ("SG.", Kind::SendGrid),
    (":AA", Kind::Telegram),
    ("frk_", Kind::Filrouge),
    ("ecret_access_key", Kind::AwsSecret),
    ("ECRET_ACCESS_KEY", Kind::AwsSecret),
    ("ecretAccessKey", Kind::AwsSecret),
    ("ecret-access-key", Kind::AwsSecret),
    ("AccountKey=", Kind::StorageKey),
    ("SharedAccessKey=", Kind::StorageKey),
    ("earer ", Kind::Bearer),
    ("EARER ", Kind::Bearer),
    ("asic ", Kind::Basic),
    ("ASIC ", Kind::Basic),
    ("://", Kind::Url),
    (r":\/\/", Kind::Url),
    (r":\\/\\/", Kind::Url),
    ("eyJ", Kind::Jwt),
    ("-----BEGIN ", Kind::Pem),
];
