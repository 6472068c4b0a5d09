//! Fictitious credentials of every shape in their usual contexts. They are assembled at run time, so that no scanner
//! reports this file as a leak.

/// The recipe of a sample: the shape's `name`, the pieces of the credential, and its `context`: a text with `{}` in
/// place of the credential.
pub(super) struct SampleRecipe {
    pub(super) name: &'static str,
    pieces: &'static [Piece],
    context: &'static str,
}

#[derive(Clone, Copy)]
enum Piece {
    Text(&'static str),
    /// Random characters: the name of their alphabet, and their number.
    Random(&'static str, usize),
}

use Piece::{Random, Text};

/// A credential and a text that contains it.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) secret: String,
    pub(super) text: String,
}

/// This many characters of an alphabet, always the same for the same `seed`.
pub(super) fn body(alphabet: &str, count: usize, seed: u64) -> String {
    let symbols: &[u8] = match alphabet {
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
        other => panic!("unknown alphabet {other}"),
    };
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = (state >> 33) as usize % symbols.len();
        char::from(symbols[at])
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Base64url of a text.
fn encoded(text: &str) -> String {
    const SYMBOLS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let symbol = |value: u32| char::from(SYMBOLS[value as usize & 63]);
    let mut output = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk.iter().fold(0, |bits, b| bits << 8 | u32::from(*b));
        let bits = bits << (8 * (3 - chunk.len()));
        let symbols = [18, 12, 6, 0].map(|shift| symbol(bits >> shift));
        output.extend(&symbols[..chunk.len() + 1]);
    }
    output
}

impl SampleRecipe {
    pub(super) fn build(&self) -> Sample {
        let seed = self.context.bytes().map(u64::from).sum::<u64>();
        let pieces = self.pieces.iter().zip(seed..);
        let secret: String = pieces
            .map(|(piece, seed)| match piece {
                Text(text) => (*text).to_owned(),
                Random(alphabet, count) => body(alphabet, *count, seed),
            })
            .collect();
        let text = self.context.replace("{}", &secret);
        Sample { secret, text }
    }
}

macro_rules! samples {
    ($($name:literal, $pieces:expr, $context:literal;)+) => {
        pub(super) const SAMPLES: &[SampleRecipe] = &[
            $(SampleRecipe { name: $name, pieces: $pieces, context: $context }),+
        ];
    };
}

const GITHUB: &[Piece] = &[Text("gh"), Text("p_"), Random("alnum", 36)];
const AKIA: &[Piece] = &[Text("AK"), Text("IA"), Random("upper", 16)];
const AWS: &[Piece] = &[Random("base64", 38), Text("aZ")];
const ANT: &[Piece] = &[
    Text("sk-"),
    Text("ant-api03-"),
    Random("url", 93),
    Text("AA"),
];
const OPENAI: &[Piece] = &[
    Text("sk-"),
    Random("alnum", 20),
    Text("T3Blb"),
    Text("kFJ"),
    Random("alnum", 20),
];
const PROJECT: &[Piece] = &[Text("sk-"), Text("proj-"), Random("url", 156)];
const JWT: &[Piece] = &[
    Random("jwt", 0),
    Text("."),
    Random("claims", 0),
    Text("."),
    Random("url", 43),
];
const LINE: Piece = Random("base64", 64);
const PEM: &[Piece] = &[
    Text("-----BEGIN "),
    Text("RSA PRIVATE KEY-----\n"),
    LINE,
    Text("\n"),
    LINE,
    Text("\nabc=\n-----END "),
    Text("RSA PRIVATE KEY-----"),
];
const ONE_LINE_PEM: &[Piece] = &[
    Text("-----BEGIN "),
    Text("PRIVATE KEY-----\\n"),
    LINE,
    Text("\\n"),
    LINE,
    Text("\\nZg==\\n-----END "),
    Text("PRIVATE KEY-----"),
];
const ENCRYPTED_PEM: &[Piece] = &[
    Text("-----BEGIN "),
    Text("RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,"),
    Random("hex", 32),
    Text("\n\n"),
    LINE,
    Text("\n-----END "),
    Text("RSA PRIVATE KEY-----"),
];
const SLACK: &[Piece] = &[
    Text("xo"),
    Text("xb-"),
    Random("digits", 12),
    Text("-"),
    Random("digits", 13),
    Text("-"),
    Random("alnum", 24),
];
const FILROUGE: &[Piece] = &[
    Text("fr"),
    Text("k_"),
    Random("alnum", 12),
    Text("_"),
    Random("alnum", 43),
];
const AZURE_STORAGE: &[Piece] = &[Random("base64", 86), Text("==")];
const PASSWORD: &[Piece] = &[Text("s3cr3t"), Random("alnum", 6)];

samples! {
    "github_token", GITHUB, "my token is {}, use it";
    "github_token", GITHUB, "GITHUB_TOKEN={}\nNEXT=1";
    "github_token", GITHUB, "git clone https://{}@github.com/a/b.git";
    "github_token", &[Text("gh"), Text("s_"), Random("alnum", 36)], "Voici le jeton : « {} » (à effacer)";
    "github_token", &[Text("gh"), Text("o_"), Random("alnum", 36)], "令牌{}不要泄露";
    "github_token", &[Text("gh"), Text("u_"), Random("alnum", 36)], r#"{"env": {"GH": "{}"}}"#;
    "github_token", &[Text("gh"), Text("r_"), Random("alnum", 76)], "refresh: '{}'";
    "github_token", &[Text("github"), Text("_pat_"), Random("alnum", 22), Text("_"), Random("alnum", 59)], "token: {}\nuser: x";
    "gitlab_token", &[Text("gl"), Text("pat-"), Random("url", 20)], "PRIVATE-TOKEN: {}";
    "gitlab_token", &[Text("gl"), Text("pat-"), Random("url", 27), Text(".01."), Random("alnum", 9)], "new form {}.";
    "gitlab_token", &[Text("gl"), Text("ptt-"), Random("hex", 40)], "trigger --token={} --ref=main";
    "slack_token", SLACK, "export SLACK_BOT_TOKEN=\"{}\"";
    "slack_token", &[Text("xo"), Text("xp-"), Random("digits", 11), Text("-"), Random("digits", 11), Text("-"), Random("digits", 12), Text("-"), Random("hex", 32)], "slack({}) failed";
    "slack_token", &[Text("xa"), Text("pp-1-A0"), Random("upper", 9), Text("-"), Random("digits", 13), Text("-"), Random("hex", 64)], "socket mode: {}";
    "slack_webhook", &[Text("T0"), Random("upper", 8), Text("/B0"), Random("upper", 8), Text("/"), Random("alnum", 24)], "curl -X POST https://hooks.slack.com/services/{} -d '{...}'";
    "openai_key", OPENAI, "OPENAI_API_KEY={}";
    "openai_key", OPENAI, "client = OpenAI(api_key=\"{}\")";
    "openai_key", PROJECT, "openai:\n  api_key: {}\n  model: mini";
    "openai_key", &[Text("sk-"), Text("svcacct-"), Random("url", 130)], "ma clé est {} merci";
    "openai_key", &[Text("sk-"), Random("hex", 32)], "deepseek key {};";
    "openai_key", &[Text("sk-"), Text("test-"), Random("digits", 28), Text("EXAMPLE")], "STAGING_TOKEN={}";
    "openai_key", &[Text("sk-"), Text("live-"), Random("url", 40)], "gateway: {}";
    "anthropic_key", ANT, "x-api-key: {}";
    "anthropic_key", ANT, "Anthropic(api_key='{}')";
    "anthropic_key", &[Text("sk-"), Text("ant-admin01-"), Random("url", 93), Text("AA")], "[{}]";
    "openrouter_key", &[Text("sk-"), Text("or-v1-"), Random("hex", 64)], "OPENROUTER={}";
    "xai_key", &[Text("xa"), Text("i-"), Random("alnum", 80)], "XAI_API_KEY={}";
    "groq_key", &[Text("gs"), Text("k_"), Random("alnum", 52)], "groq: {}";
    "perplexity_key", &[Text("pp"), Text("lx-"), Random("alnum", 48)], "<key>{}</key>";
    "aws_access_key_id", AKIA, "aws_access_key_id = {}";
    "aws_access_key_id", &[Text("AS"), Text("IA"), Random("upper", 16)], "\"AccessKeyId\": \"{}\",";
    "aws_access_key_id", AKIA, "?X-Amz-Credential={}%2F20250101%2Feu-west-3";
    "aws_secret_key", AWS, "[default]\naws_secret_access_key = {}\nregion = eu";
    "aws_secret_key", AWS, "export AWS_SECRET_ACCESS_KEY={}";
    "aws_secret_key", AWS, "{\"SecretAccessKey\": \"{}\"}";
    "aws_secret_key", AWS, "new S3({ secretAccessKey: '{}' })";
    "google_api_key", &[Text("AI"), Text("za"), Random("url", 35)], "https://maps.googleapis.com/maps?key={}&q=Lyon";
    "google_api_key", &[Text("AI"), Text("za"), Random("url", 35)], "  apiKey: \"{}\",";
    "google_oauth", &[Text("ya"), Text("29."), Random("url", 180)], "access_token={}";
    "google_oauth", &[Text("GO"), Text("CSPX-"), Random("url", 28)], "\"client_secret\":\"{}\"";
    "azure_key", AZURE_STORAGE, "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net";
    "azure_key", &[Random("base64", 43), Text("=")], "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={}";
    "stripe_key", &[Text("sk"), Text("_live_"), Random("alnum", 24)], "stripe.api_key = \"{}\"";
    "stripe_key", &[Text("rk"), Text("_live_"), Random("alnum", 99)], "restricted {} key";
    "stripe_key", &[Text("sk"), Text("_test_"), Random("alnum", 99)], "curl https://api.stripe.com/v1/charges -u {}:";
    "webhook_secret", &[Text("wh"), Text("sec_"), Random("alnum", 32)], "STRIPE_WEBHOOK_SECRET={}";
    "webhook_secret", &[Text("wh"), Text("sec_"), Random("base64", 32)], "secret = \"{}\"";
    "twilio_key", &[Text("S"), Text("K"), Random("hex", 32)], "twilio: {}, secret to follow";
    "sendgrid_key", &[Text("S"), Text("G."), Random("url", 22), Text("."), Random("url", 43)], "SENDGRID_API_KEY='{}'";
    "mailgun_key", &[Text("ke"), Text("y-"), Random("hex", 32)], "curl -s --user 'api:{}'";
    "npm_token", &[Text("np"), Text("m_"), Random("alnum", 36)], "//registry.npmjs.org/:_authToken={}";
    "pypi_token", &[Text("py"), Text("pi-Ag"), Text("EIcHlwaS5vcmc"), Random("url", 120)], "[pypi]\nusername = __token__\npassword = {}";
    "huggingface_token", &[Text("h"), Text("f_"), Random("alnum", 34)], "login(token=\"{}\")";
    "digitalocean_token", &[Text("do"), Text("p_v1_"), Random("hex", 64)], "doctl auth init -t {}";
    "shopify_token", &[Text("sh"), Text("pat_"), Random("hex", 32)], "X-Shopify-Access-Token: {}";
    "telegram_token", &[Random("digits", 10), Text(":A"), Text("A"), Random("url", 33)], "BOT={}";
    "telegram_token", &[Random("digits", 9), Text(":A"), Text("A"), Random("url", 33)], "https://api.telegram.org/bot{}/getMe";
    "discord_token", &[Random("discord", 0), Text(".G"), Random("alnum", 5), Text("."), Random("url", 38)], "client.login('{}');";
    "discord_token", &[Random("discord", 0), Text(".X"), Random("alnum", 5), Text("."), Random("url", 27)], "Authorization: Bot {}";
    "filrouge_key", FILROUGE, "FILROUGE_KEY={}";
    "filrouge_key", FILROUGE, "la clé « {} »";
    "jwt", JWT, "token {}.";
    "jwt", JWT, "document.cookie = \"session={}; path=/\"";
    "private_key", PEM, "here it is:\n{}\nthanks";
    "private_key", ENCRYPTED_PEM, "id_rsa:\n{}";
    "private_key", ONE_LINE_PEM, "{\"type\": \"service_account\", \"private_key\": \"{}\\n\"}";
    "bearer_token", &[Random("alnum", 40)], "curl -H 'Authorization: Bearer {}' https://example.org";
    "bearer_token", &[Random("base64", 30), Text("1==")], "\"headers\": {\"authorization\": \"Bearer {}\"}";
    "bearer_token", &[Random("hex", 32)], "it says: bearer {}";
    "bearer_token", JWT, "Authorization: Bearer {}";
    "basic_auth", &[Random("user", 0)], "Authorization: Basic {}";
    "basic_auth", &[Random("user", 0)], "headers['Authorization'] = 'Basic {}'";
    "url_password", PASSWORD, "DATABASE_URL=postgres://app:{}@db.example.com:5432/prod?sslmode=require";
    "url_password", PASSWORD, "redis://:{}@10.0.0.1:6379/0";
    "url_password", PASSWORD, "mongodb+srv://jeanne:{}@cluster0.mongodb.net,b:27017/x";
    "url_password", &[Text("p@ss"), Random("alnum", 6), Text("é!")], "amqp://jeanne@example.org:{}@mq/vhost";
    "url_password", PASSWORD, "psql 'postgresql://u:{}@${HOST}/x'";
}
