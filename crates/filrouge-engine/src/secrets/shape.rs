//! The shapes of credentials: their names, and a table of the simple shapes, which are a prefix and one run of characters.

use super::read::Alphabet;

filrouge_types::words!(
    /// A kind of credential.
    pub(crate) enum Shape: "kind of credential" {
        GithubToken => "github_token",
        GitlabToken => "gitlab_token",
        SlackToken => "slack_token",
        SlackWebhook => "slack_webhook",
        OpenaiKey => "openai_key",
        AnthropicKey => "anthropic_key",
        OpenrouterKey => "openrouter_key",
        XaiKey => "xai_key",
        GroqKey => "groq_key",
        PerplexityKey => "perplexity_key",
        AwsAccessKeyId => "aws_access_key_id",
        AwsSecretKey => "aws_secret_key",
        GoogleApiKey => "google_api_key",
        GoogleOauth => "google_oauth",
        AzureKey => "azure_key",
        StripeKey => "stripe_key",
        WebhookSecret => "webhook_secret",
        TwilioKey => "twilio_key",
        SendgridKey => "sendgrid_key",
        MailgunKey => "mailgun_key",
        NpmToken => "npm_token",
        PypiToken => "pypi_token",
        HuggingfaceToken => "huggingface_token",
        DigitaloceanToken => "digitalocean_token",
        ShopifyToken => "shopify_token",
        TelegramToken => "telegram_token",
        DiscordToken => "discord_token",
        FilrougeKey => "filrouge_key",
        Jwt => "jwt",
        PrivateKey => "private_key",
        BearerToken => "bearer_token",
        BasicAuth => "basic_auth",
        UrlPassword => "url_password",
        SecretMember => "secret_member",
        RuntimeContext => "runtime_context",
    }
);

impl Shape {
    /// The mask that replaces a credential.
    pub(crate) fn mask(self) -> String {
        format!("[masked:{self}]")
    }
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

/// A rule for exactly `count` characters.
pub(super) const fn exactly(shape: Shape, alphabet: Alphabet, count: usize) -> SimpleRule {
    SimpleRule {
        shape,
        prefix_length: 0,
        prefixes: &[],
        alphabet,
        min: count,
        max: count,
    }
}

/// A rule for at least `count` characters.
pub(super) const fn at_least(shape: Shape, alphabet: Alphabet, count: usize) -> SimpleRule {
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
