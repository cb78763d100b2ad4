//! Access logs.

use std::collections::BTreeMap;

use portolan_model::objects::{AccessLog, AccessLogFormat};
use portolan_proto::envoy::accesslog::{self, access_log::ConfigType};
use portolan_proto::envoy::core::DataSource;
use portolan_proto::envoy::core::data_source::Specifier;
use portolan_proto::envoy::{Any, Value, file_access_log, pack_any, stream_access_log, value};

/// Number of `log_format` in the messages of standard output and error.
const LOG_FORMAT_OF_STREAM: u32 = 1;
/// Number of `log_format` in FileAccessLog.
const LOG_FORMAT_OF_FILE: u32 = 5;

/// Envoy's SubstitutionFormatString (`envoy.config.core.v3`) on the wire. The generated one has members in a hash table, which are written in
/// another order each time.
#[derive(Clone, PartialEq, prost::Message)]
struct Format {
    #[prost(message, optional, tag = "2")]
    json_format: Option<Members>,
    #[prost(message, optional, tag = "5")]
    text_format_source: Option<DataSource>,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, prost::Message)]
struct Members {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, Value>,
}

/// Envoy's form of a log. Standard output and error are written to, not opened: to open them is refused where a pipe is another user's.
pub fn access_log(log: &AccessLog) -> accesslog::AccessLog {
    let (name, mut config, number) = match &*log.path {
        "/dev/stdout" => {
            let config = stream_access_log::StdoutAccessLog::default();
            ("envoy.access_loggers.stdout", pack_any(config), LOG_FORMAT_OF_STREAM)
        }
        "/dev/stderr" => {
            let config = stream_access_log::StderrAccessLog::default();
            ("envoy.access_loggers.stderr", pack_any(config), LOG_FORMAT_OF_STREAM)
        }
        path => {
            let config = file_access_log::FileAccessLog { path: path.into(), ..Default::default() };
            ("envoy.access_loggers.file", pack_any(config), LOG_FORMAT_OF_FILE)
        }
    };
    let Any { value, .. } = &mut config;
    prost::encoding::message::encode(number, &format(&log.format), value);
    accesslog::AccessLog { name: name.into(), config_type: Some(ConfigType::TypedConfig(config)), ..Default::default() }
}

fn format(format: &AccessLogFormat) -> Format {
    match format {
        AccessLogFormat::Text(text) => {
            let specifier = Some(Specifier::InlineString(text.to_string()));
            Format { text_format_source: Some(DataSource { specifier, ..Default::default() }), json_format: None }
        }
        AccessLogFormat::Json(members) => {
            let text = |text: &str| Value { kind: Some(value::Kind::StringValue(text.to_owned())) };
            let fields = members.iter().map(|(name, format)| (name.to_string(), text(format))).collect();
            Format { json_format: Some(Members { fields }), text_format_source: None }
        }
    }
}
