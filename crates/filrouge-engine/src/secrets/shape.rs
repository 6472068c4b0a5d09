//! The shapes of credentials: their names and anchors, and a table of the simple shapes, which are a prefix and one run
//! of characters.

use super::read::Alphabet;

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

/// The rule by which the text at an anchor is judged; `scan.rs` calls the function of each rule.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// A simple shape; the number is its row in [`SIMPLE_RULES`].
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
pub(super) struct SimpleRule {
    pub(super) shape: Shape,
    /// The number of bytes of the prefix that precede the anchor.
    pub(super) prefix_length: usize,
    /// The possible values of these bytes; if empty, any value is possible.
    pub(super) prefixes: &'static [&'static [u8]],
    pub(super) alphabet: Alphabet,
    /// The minimum number of characters of the run.
    pub(super) min: usize,
    /// The maximum number of characters of the run: equal to `min`, or unbounded.
    pub(super) max: usize,
}

const fn exactly(shape: Shape, alphabet: Alphabet, count: usize) -> SimpleRule {
    SimpleRule {
        shape,
        prefix_length: 0,
        prefixes: &[],
        alphabet,
        min: count,
        max: count,
    }
}

const fn at_least(shape: Shape, alphabet: Alphabet, count: usize) -> SimpleRule {
    SimpleRule {
        max: usize::MAX,
        ..exactly(shape, alphabet, count)
    }
}

/// The simple shapes. Lengths and alphabets are as the issuers document them, or else as observed in their tokens.
pub(super) const SIMPLE_RULES: &[SimpleRule] = &[
    // At present 36 characters follow `ghp_` and similar prefixes; GitHub has announced longer tokens.
    at_least(Shape::GithubToken, Alphabet::Word, 36),
    at_least(Shape::GithubToken, Alphabet::Word, 22),
    at_least(Shape::GitlabToken, Alphabet::Dotted, 20),
    exactly(Shape::AwsAccessKeyId, Alphabet::Upper, 16),
    exactly(Shape::GoogleApiKey, Alphabet::Url, 35),
    at_least(Shape::GoogleOauth, Alphabet::Dotted, 20),
    exactly(Shape::GoogleOauth, Alphabet::Url, 28),
    SimpleRule {
        prefix_length: 2,
        prefixes: &[b"sk", b"rk"],
        ..at_least(Shape::StripeKey, Alphabet::Alnum, 16)
    },
    at_least(Shape::WebhookSecret, Alphabet::Base64, 24),
    at_least(Shape::NpmToken, Alphabet::Alnum, 36),
    at_least(Shape::PypiToken, Alphabet::Url, 50),
    at_least(Shape::HuggingfaceToken, Alphabet::Alnum, 30),
    SimpleRule {
        prefix_length: 3,
        prefixes: &[b"dop", b"doo", b"dor"],
        ..exactly(Shape::DigitaloceanToken, Alphabet::Hex, 64)
    },
    exactly(Shape::ShopifyToken, Alphabet::Hex, 32),
    exactly(Shape::MailgunKey, Alphabet::Hex, 32),
    at_least(Shape::XaiKey, Alphabet::Alnum, 60),
    at_least(Shape::GroqKey, Alphabet::Alnum, 40),
    at_least(Shape::PerplexityKey, Alphabet::Alnum, 40),
];

/// The anchors, and how the text at each one is judged. No anchor is a prefix of another.
pub(super) const ANCHORS: &[(&str, Rule)] = &[
    ("ghp_", Rule::Simple(0)),
    ("gho_", Rule::Simple(0)),
    ("ghu_", Rule::Simple(0)),
    ("ghs_", Rule::Simple(0)),
    ("ghr_", Rule::Simple(0)),
    ("github_pat_", Rule::Simple(1)),
    ("glpat-", Rule::Simple(2)),
    ("gldt-", Rule::Simple(2)),
    ("glrt-", Rule::Simple(2)),
    ("glptt-", Rule::Simple(2)),
    ("AKIA", Rule::Simple(3)),
    ("ASIA", Rule::Simple(3)),
    ("AIza", Rule::Simple(4)),
    ("ya29.", Rule::Simple(5)),
    ("GOCSPX-", Rule::Simple(6)),
    ("_live_", Rule::Simple(7)),
    ("_test_", Rule::Simple(7)),
    ("whsec_", Rule::Simple(8)),
    ("npm_", Rule::Simple(9)),
    ("pypi-AgE", Rule::Simple(10)),
    ("hf_", Rule::Simple(11)),
    ("_v1_", Rule::Simple(12)),
    ("shpat_", Rule::Simple(13)),
    ("shpca_", Rule::Simple(13)),
    ("shppa_", Rule::Simple(13)),
    ("shpss_", Rule::Simple(13)),
    ("key-", Rule::Simple(14)),
    ("xai-", Rule::Simple(15)),
    ("gsk_", Rule::Simple(16)),
    ("pplx-", Rule::Simple(17)),
    ("sk-", Rule::Sk),
    ("xox", Rule::Slack),
    ("xapp-", Rule::SlackApp),
    ("hooks.slack.com", Rule::SlackWebhook),
    ("SG.", Rule::SendGrid),
    (":AA", Rule::Telegram),
    ("frk_", Rule::Filrouge),
    ("ecret_access_key", Rule::AwsSecret),
    ("ECRET_ACCESS_KEY", Rule::AwsSecret),
    ("ecretAccessKey", Rule::AwsSecret),
    ("ecret-access-key", Rule::AwsSecret),
    ("AccountKey=", Rule::StorageKey),
    ("SharedAccessKey=", Rule::StorageKey),
    ("earer ", Rule::Bearer),
    ("EARER ", Rule::Bearer),
    ("asic ", Rule::Basic),
    ("ASIC ", Rule::Basic),
    ("://", Rule::Url),
    (r":\/\/", Rule::Url),
    (r":\\/\\/", Rule::Url),
    ("eyJ", Rule::Jwt),
    ("-----BEGIN ", Rule::Pem),
];
