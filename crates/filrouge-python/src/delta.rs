//! Values as differences to earlier ones, for adapters that keep many similar ones.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, compress_bound, get_error_name, get_frame_content_size,
};

/// The speed and size of compression: zstd's default.
const LEVEL: i32 = 3;
/// The binary logarithm of the largest window, which bounds the memory of a decoder: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;
/// The smallest window that zstd allows.
const WINDOW_LOG_MIN: u32 = 10;
/// The size in bytes of both values together above which matches are also sought far back.
const LONG_DISTANCE: usize = 1 << 20;
/// The maximum size in bytes of a value.
const VALUE_MAX: u64 = 1 << 30;

/// The value as one frame of zstd that refers to `base`. Without a base, the frame stands alone.
#[pyfunction]
pub(crate) fn delta<'py>(
    py: Python<'py>,
    base: &[u8],
    value: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let frame = py.detach(|| encode(base, value));
    let frame = frame.map_err(PyValueError::new_err)?;
    Ok(PyBytes::new(py, &frame))
}

/// The value of which `delta` made this frame with the same base.
#[pyfunction]
pub(crate) fn undelta<'py>(
    py: Python<'py>,
    base: &[u8],
    delta: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let value = py.detach(|| decode(base, delta));
    let value = value.map_err(PyValueError::new_err)?;
    Ok(PyBytes::new(py, &value))
}

fn encode(base: &[u8], value: &[u8]) -> Result<Vec<u8>, String> {
    let size = base.len().saturating_add(value.len());
    let window_log = size.max(1).next_power_of_two().ilog2();
    let mut context = CCtx::try_create().ok_or("no memory")?;
    let parameters = [
        CParameter::CompressionLevel(LEVEL),
        CParameter::ChecksumFlag(true),
        CParameter::WindowLog(window_log.clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX)),
        CParameter::EnableLongDistanceMatching(size > LONG_DISTANCE),
    ];
    for parameter in parameters {
        context.set_parameter(parameter).map_err(error_text)?;
    }
    context.ref_prefix(base).map_err(error_text)?;
    let mut frame = Vec::with_capacity(compress_bound(value.len()));
    context.compress2(&mut frame, value).map_err(error_text)?;
    Ok(frame)
}

fn decode(base: &[u8], frame: &[u8]) -> Result<Vec<u8>, String> {
    let size = get_frame_content_size(frame).ok().flatten();
    let size = size.ok_or("the frame does not state the size of its value")?;
    if size > VALUE_MAX {
        return Err(format!(
            "the value has {size} bytes; at most {VALUE_MAX} are allowed"
        ));
    }
    let mut context = DCtx::try_create().ok_or("no memory")?;
    let window = DParameter::WindowLogMax(WINDOW_LOG_MAX);
    context.set_parameter(window).map_err(error_text)?;
    context.ref_prefix(base).map_err(error_text)?;
    let mut value = Vec::with_capacity(usize::try_from(size).map_err(|e| e.to_string())?);
    context.decompress(&mut value, frame).map_err(error_text)?;
    Ok(value)
}

fn error_text(code: usize) -> String {
    format!("zstd: {}", get_error_name(code))
}
