//! Fictitious credentials of every shape in their usual contexts. They are assembled at run time, so that no scanner reports this
//! file as a leak.

/// Recipe of a sample: `name` of the shape, pieces of the credential, and the text around `{}`.
pub(super) struct SampleRecipe {
    pub(super) name: &'static str,
    pieces: &'static [Piece],
    around: &'static str,
}

#[derive(Clone, Copy)]
enum Piece {
    Is(&'static str),
    Of(&'static str, usize),
}

use Piece::{Is, Of};

/// A credential and a text that contains it.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) secret: String,
    pub(super) text: String,
}

/// This many characters of an alphabet, always the same for the same `seed`.
pub(super) fn body(alphabet: &str, count: usize, seed: u64) -> String {
    let letters: &[u8] = match alphabet {
        "alnum" => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        "url" => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-",
        "base64" => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/",
        "hex" => b"0123456789abcdef",
        "upper" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "digits" => b"123456789",
        "jwt" => return encoded(r#"{"alg":"HS256","typ":"JWT"}"#),
        "claims" => return encoded(r#"{"sub":"1234567890","name":"Jeanne","iat":1516239022}"#),
        "user" => return encoded("jeanne:d'Arc 1412!"),
        "discord" => return encoded("123456789012345678"),
        other => panic!("no alphabet {other}"),
    };
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = (state >> 33) as usize % letters.len();
        char::from(letters[at])
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Base64url of a text.
fn encoded(text: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |value: u32| char::from(LETTERS[value as usize & 63]);
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk.iter().fold(0, |bits, b| bits << 8 | u32::from(*b));
        let bits = bits << (8 * (3 - chunk.len()));
        let all = [18, 12, 6, 0].map(|shift| letter(bits >> shift));
        out.extend(&all[..chunk.len() + 1]);
    }
    out
}

impl SampleRecipe {
    pub(super) fn make(&self) -> Sample {
        let seed = self.around.bytes().map(u64::from).sum::<u64>();
        let pieces = self.pieces.iter().zip(seed..);
        let secret: String = pieces
            .map(|(piece, seed)| match piece {
                Is(text) => (*text).to_owned(),
                Of(alphabet, count) => body(alphabet, *count, seed),
            })
            .collect();
        let text = self.around.replace("{}", &secret);
        Sample { secret, text }
    }
}

macro_rules! samples {
    ($($name:literal, $pieces:expr, $around:literal;)+) => {
        pub(super) const SAMPLES: &[SampleRecipe] = &[
            $(SampleRecipe { name: $name, pieces: $pieces, around: $around }),+
        ];
    };
}

const GH: &[Piece] = &[Is("gh"), Is("p_"), Of("alnum", 36)];
const AKIA: &[Piece] = &[Is("AK"), Is("IA"), Of("upper", 16)];
const AWS: &[Piece] = &[Of("base64", 38), Is("aZ")];
const ANT: &[Piece] = &[Is("sk-"), Is("ant-api03-"), Of("url", 93), Is("AA")];
const OPENAI: &[Piece] = &[
    Is("sk-"),
    Of("alnum", 20),
    Is("T3Blb"),
    Is("kFJ"),
    Of("alnum", 20),
];
const PROJECT: &[Piece] = &[Is("sk-"), Is("proj-"), Of("url", 156)];
const JWT: &[Piece] = &[
    Of("jwt", 0),
    Is("."),
    Of("claims", 0),
    Is("."),
    Of("url", 43),
];
const LINE: Piece = Of("base64", 64);
const PEM: &[Piece] = &[
    Is("-----BEGIN "),
    Is("RSA PRIVATE KEY-----\n"),
    LINE,
    Is("\n"),
    LINE,
    Is("\nabc=\n-----END "),
    Is("RSA PRIVATE KEY-----"),
];
const FLAT: &[Piece] = &[
    Is("-----BEGIN "),
    Is("PRIVATE KEY-----\\n"),
    LINE,
    Is("\\n"),
    LINE,
    Is("\\nZg==\\n-----END "),
    Is("PRIVATE KEY-----"),
];
const SEALED: &[Piece] = &[
    Is("-----BEGIN "),
    Is("RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,"),
    Of("hex", 32),
    Is("\n\n"),
    LINE,
    Is("\n-----END "),
    Is("RSA PRIVATE KEY-----"),
];
const SLACK: &[Piece] = &[
    Is("xo"),
    Is("xb-"),
    Of("digits", 12),
    Is("-"),
    Of("digits", 13),
    Is("-"),
    Of("alnum", 24),
];
const FILROUGE: &[Piece] = &[
    Is("fr"),
    Is("k_"),
    Of("alnum", 12),
    Is("_"),
    Of("alnum", 43),
];
const STORAGE: &[Piece] = &[Of("base64", 86), Is("==")];
const PASSWORD: &[Piece] = &[Is("s3cr3t"), Of("alnum", 6)];

samples! {
    "github_token", GH, "my token is {}, use it";
    "github_token", GH, "GITHUB_TOKEN={}\nNEXT=1";
    "github_token", GH, "git clone https://{}@github.com/a/b.git";
    "github_token", &[Is("gh"), Is("s_"), Of("alnum", 36)], "Voici le jeton : « {} » (à effacer)";
    "github_token", &[Is("gh"), Is("o_"), Of("alnum", 36)], "令牌{}不要泄露";
    "github_token", &[Is("gh"), Is("u_"), Of("alnum", 36)], r#"{"env": {"GH": "{}"}}"#;
    "github_token", &[Is("gh"), Is("r_"), Of("alnum", 76)], "refresh: '{}'";
    "github_token", &[Is("github"), Is("_pat_"), Of("alnum", 22), Is("_"), Of("alnum", 59)], "token: {}\nuser: x";
    "gitlab_token", &[Is("gl"), Is("pat-"), Of("url", 20)], "PRIVATE-TOKEN: {}";
    "gitlab_token", &[Is("gl"), Is("pat-"), Of("url", 27), Is(".01."), Of("alnum", 9)], "new form {}.";
    "gitlab_token", &[Is("gl"), Is("ptt-"), Of("hex", 40)], "trigger --token={} --ref=main";
    "slack_token", SLACK, "export SLACK_BOT_TOKEN=\"{}\"";
    "slack_token", &[Is("xo"), Is("xp-"), Of("digits", 11), Is("-"), Of("digits", 11), Is("-"), Of("digits", 12), Is("-"), Of("hex", 32)], "slack({}) failed";
    "slack_token", &[Is("xa"), Is("pp-1-A0"), Of("upper", 9), Is("-"), Of("digits", 13), Is("-"), Of("hex", 64)], "socket mode: {}";
    "slack_webhook", &[Is("T0"), Of("upper", 8), Is("/B0"), Of("upper", 8), Is("/"), Of("alnum", 24)], "curl -X POST https://hooks.slack.com/services/{} -d '{...}'";
    "openai_key", OPENAI, "OPENAI_API_KEY={}";
    "openai_key", OPENAI, "client = OpenAI(api_key=\"{}\")";
    "openai_key", PROJECT, "openai:\n  api_key: {}\n  model: mini";
    "openai_key", &[Is("sk-"), Is("svcacct-"), Of("url", 130)], "ma clé est {} merci";
    "openai_key", &[Is("sk-"), Of("hex", 32)], "deepseek key {};";
    "openai_key", &[Is("sk-"), Is("test-"), Of("digits", 28), Is("EXAMPLE")], "STAGING_TOKEN={}";
    "openai_key", &[Is("sk-"), Is("live-"), Of("url", 40)], "gateway: {}";
    "anthropic_key", ANT, "x-api-key: {}";
    "anthropic_key", ANT, "Anthropic(api_key='{}')";
    "anthropic_key", &[Is("sk-"), Is("ant-admin01-"), Of("url", 93), Is("AA")], "[{}]";
    "openrouter_key", &[Is("sk-"), Is("or-v1-"), Of("hex", 64)], "OPENROUTER={}";
    "xai_key", &[Is("xa"), Is("i-"), Of("alnum", 80)], "XAI_API_KEY={}";
    "groq_key", &[Is("gs"), Is("k_"), Of("alnum", 52)], "groq: {}";
    "perplexity_key", &[Is("pp"), Is("lx-"), Of("alnum", 48)], "<key>{}</key>";
    "aws_access_key_id", AKIA, "aws_access_key_id = {}";
    "aws_access_key_id", &[Is("AS"), Is("IA"), Of("upper", 16)], "\"AccessKeyId\": \"{}\",";
    "aws_access_key_id", AKIA, "?X-Amz-Credential={}%2F20250101%2Feu-west-3";
    "aws_secret_key", AWS, "[default]\naws_secret_access_key = {}\nregion = eu";
    "aws_secret_key", AWS, "export AWS_SECRET_ACCESS_KEY={}";
    "aws_secret_key", AWS, "{\"SecretAccessKey\": \"{}\"}";
    "aws_secret_key", AWS, "new S3({ secretAccessKey: '{}' })";
    "google_api_key", &[Is("AI"), Is("za"), Of("url", 35)], "https://maps.googleapis.com/maps?key={}&q=Lyon";
    "google_api_key", &[Is("AI"), Is("za"), Of("url", 35)], "  apiKey: \"{}\",";
    "google_oauth", &[Is("ya"), Is("29."), Of("url", 180)], "access_token={}";
    "google_oauth", &[Is("GO"), Is("CSPX-"), Of("url", 28)], "\"client_secret\":\"{}\"";
    "azure_key", STORAGE, "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net";
    "azure_key", &[Of("base64", 43), Is("=")], "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={}";
    "stripe_key", &[Is("sk"), Is("_live_"), Of("alnum", 24)], "stripe.api_key = \"{}\"";
    "stripe_key", &[Is("rk"), Is("_live_"), Of("alnum", 99)], "restricted {} key";
    "stripe_key", &[Is("sk"), Is("_test_"), Of("alnum", 99)], "curl https://api.stripe.com/v1/charges -u {}:";
    "webhook_secret", &[Is("wh"), Is("sec_"), Of("alnum", 32)], "STRIPE_WEBHOOK_SECRET={}";
    "webhook_secret", &[Is("wh"), Is("sec_"), Of("base64", 32)], "secret = \"{}\"";
    "twilio_key", &[Is("S"), Is("K"), Of("hex", 32)], "twilio: {}, secret to follow";
    "sendgrid_key", &[Is("S"), Is("G."), Of("url", 22), Is("."), Of("url", 43)], "SENDGRID_API_KEY='{}'";
    "mailgun_key", &[Is("ke"), Is("y-"), Of("hex", 32)], "curl -s --user 'api:{}'";
    "npm_token", &[Is("np"), Is("m_"), Of("alnum", 36)], "//registry.npmjs.org/:_authToken={}";
    "pypi_token", &[Is("py"), Is("pi-Ag"), Is("EIcHlwaS5vcmc"), Of("url", 120)], "[pypi]\nusername = __token__\npassword = {}";
    "huggingface_token", &[Is("h"), Is("f_"), Of("alnum", 34)], "login(token=\"{}\")";
    "digitalocean_token", &[Is("do"), Is("p_v1_"), Of("hex", 64)], "doctl auth init -t {}";
    "shopify_token", &[Is("sh"), Is("pat_"), Of("hex", 32)], "X-Shopify-Access-Token: {}";
    "telegram_token", &[Of("digits", 10), Is(":A"), Is("A"), Of("url", 33)], "BOT={}";
    "telegram_token", &[Of("digits", 9), Is(":A"), Is("A"), Of("url", 33)], "https://api.telegram.org/bot{}/getMe";
    "discord_token", &[Of("discord", 0), Is(".G"), Of("alnum", 5), Is("."), Of("url", 38)], "client.login('{}');";
    "discord_token", &[Of("discord", 0), Is(".X"), Of("alnum", 5), Is("."), Of("url", 27)], "Authorization: Bot {}";
    "filrouge_key", FILROUGE, "FILROUGE_KEY={}";
    "filrouge_key", FILROUGE, "la clé « {} »";
    "jwt", JWT, "token {}.";
    "jwt", JWT, "document.cookie = \"session={}; path=/\"";
    "private_key", PEM, "here it is:\n{}\nthanks";
    "private_key", SEALED, "id_rsa:\n{}";
    "private_key", FLAT, "{\"type\": \"service_account\", \"private_key\": \"{}\\n\"}";
    "bearer_token", &[Of("alnum", 40)], "curl -H 'Authorization: Bearer {}' https://example.org";
    "bearer_token", &[Of("base64", 30), Is("1==")], "\"headers\": {\"authorization\": \"Bearer {}\"}";
    "bearer_token", &[Of("hex", 32)], "it says: bearer {}";
    "bearer_token", JWT, "Authorization: Bearer {}";
    "basic_auth", &[Of("user", 0)], "Authorization: Basic {}";
    "basic_auth", &[Of("user", 0)], "headers['Authorization'] = 'Basic {}'";
    "url_password", PASSWORD, "DATABASE_URL=postgres://app:{}@db.example.com:5432/prod?sslmode=require";
    "url_password", PASSWORD, "redis://:{}@10.0.0.1:6379/0";
    "url_password", PASSWORD, "mongodb+srv://jeanne:{}@cluster0.mongodb.net,b:27017/x";
    "url_password", &[Is("p@ss"), Of("alnum", 6), Is("é!")], "amqp://jeanne@example.org:{}@mq/vhost";
    "url_password", PASSWORD, "psql 'postgresql://u:{}@${HOST}/x'";
}
