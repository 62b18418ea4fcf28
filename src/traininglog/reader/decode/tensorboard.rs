//! Reads scalars from TensorBoard event files.
//!
//! A record is a length (u64, little endian), the checksum of the length, the data, and the checksum of the data. The data is a protobuf
//! `Event`, of which only step, tag and scalar are read. The checksum is CRC-32C, masked as in TensorFlow (rotate right by 15, add a
//! constant). Properties: an incomplete record waits for the rest; a large record (an image, a graph) is skipped without being buffered; a
//! damaged length ends the reading of the file, because the start of the next record is unknown.

/// Maximum bytes of a record that is read; scalars are far smaller.
const RECORD_MAX: u64 = 16 * 1024;

/// Bytes of the length and its checksum.
const HEAD: usize = 12;

/// Bytes needed to recognise an event file.
pub(crate) const RECOGNISE: usize = HEAD;

const MASK_DELTA: u32 = 0xa282_ead8;

/// CRC-32C (Castagnoli), reflected polynomial 0x82F63B78.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Returns the masked checksum of `data`.
fn masked_crc(data: &[u8]) -> u32 {
    let crc = !data.iter().fold(!0u32, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize]);
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Whether the first bytes of a stream can be an event file. Text is ruled out from its fifth byte on.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    bytes.iter().skip(4).take(4).all(|byte| *byte == 0) && (bytes.len() < HEAD || head(bytes).is_some())
}

/// Returns the length in the head of a record if its checksum is correct.
fn head(bytes: &[u8]) -> Option<u64> {
    let length = bytes.get(..8)?;
    let crc = u32::from_le_bytes(bytes.get(8..HEAD)?.try_into().ok()?);
    (masked_crc(length) == crc).then(|| u64::from_le_bytes(length.try_into().unwrap_or_default()))
}

/// One scalar of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar<'a> {
    pub record: u64,
    pub step: i64,
    pub tag: &'a [u8],
    pub value: f64,
}

/// Splits a stream into records.
#[derive(Debug, Default)]
pub(crate) struct TensorboardDecoder {
    buffer: Vec<u8>,
    /// Bytes of a large record that are still to be skipped.
    skip: u64,
    records: u64,
    damaged: bool,
}

impl TensorboardDecoder {
    /// Reads the next bytes and reports each scalar that they complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Scalar<'_>)) {
        while !bytes.is_empty() && !self.damaged {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len() as u64);
                self.skip -= passed;
                bytes = &bytes[passed as usize..];
                continue;
            }
            let wanted = match head(&self.buffer) {
                Some(length) => HEAD + length as usize + 4,
                None => HEAD,
            };
            let taken = (wanted - self.buffer.len()).min(bytes.len());
            self.buffer.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.buffer.len() == wanted {
                self.complete(&mut each);
            }
        }
    }

    /// Handles a complete head or record in the buffer.
    fn complete(&mut self, each: &mut impl FnMut(Scalar<'_>)) {
        let Some(length) = head(&self.buffer) else {
            self.damaged = true;
            return self.buffer.clear();
        };
        if length > RECORD_MAX {
            self.skip = length.saturating_add(4);
            self.records += 1;
            return self.buffer.clear();
        }
        if self.buffer.len() == HEAD {
            return;
        }
        self.records += 1;
        let (data, crc) = self.buffer[HEAD..].split_at(length as usize);
        if crc == masked_crc(data).to_le_bytes() {
            read_event(data, self.records, each);
        }
        self.buffer.clear();
    }
}

/// One field of a protobuf message.
enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message, up to its end or the first invalid field.
struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u64, Wire<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.take(8)?.try_into().ok()?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        Some((key >> 3, wire))
    }
}

/// Field numbers: `Event` 2 = step, 5 = summary; `Summary` 1 = value; `Value` 1 = tag, 2 = simple value, 8 = tensor.
fn read_event(data: &[u8], record: u64, each: &mut impl FnMut(Scalar<'_>)) {
    let mut step = 0;
    for (field, wire) in Message(data) {
        if let (2, Wire::Varint(value)) = (field, wire) {
            step = value as i64;
        }
    }
    for (field, wire) in Message(data) {
        let (5, Wire::Bytes(summary)) = (field, wire) else { continue };
        for (field, wire) in Message(summary) {
            let (1, Wire::Bytes(value)) = (field, wire) else { continue };
            let mut tag: &[u8] = b"";
            let mut scalar = None;
            for (field, wire) in Message(value) {
                match (field, wire) {
                    (1, Wire::Bytes(text)) => tag = text,
                    (2, Wire::Fixed32(bytes)) => scalar = Some(f64::from(f32::from_le_bytes(bytes))),
                    (8, Wire::Bytes(tensor)) => scalar = scalar.or_else(|| scalar_tensor(tensor)),
                    _ => {}
                }
            }
            if let Some(value) = scalar {
                each(Scalar { record, step, tag, value });
            }
        }
    }
}

/// Returns the scalar of a `TensorProto` with a single number. Field numbers: 4 = content, 5 = floats, 6 = doubles.
fn scalar_tensor(tensor: &[u8]) -> Option<f64> {
    let single = |bytes: &[u8]| match bytes.len() {
        4 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        8 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    };
    let mut whole = false;
    Message(tensor).find_map(|(field, wire)| match (field, wire) {
        // Types: 1 float, 2 double. Integers (3, 9), histograms and texts have other types.
        (1, Wire::Varint(kind)) => {
            whole = !matches!(kind, 1 | 2);
            None
        }
        (4..=6, Wire::Bytes(bytes)) if !whole => single(bytes),
        (5, Wire::Fixed32(bytes)) => single(&bytes),
        (6, Wire::Fixed64(bytes)) => single(&bytes),
        _ => None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn field(number: u64, wire: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![(number << 3 | wire) as u8];
        if wire == 2 {
            bytes.push(payload.len() as u8);
        }
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Returns a record as written by TensorFlow.
    pub(crate) fn record(step: u8, tag: &str, value: f32, as_tensor: bool) -> Vec<u8> {
        let scalar = if as_tensor {
            field(8, 2, &[field(1, 0, &[1]), field(4, 2, &value.to_le_bytes())].concat())
        } else {
            field(2, 5, &value.to_le_bytes())
        };
        let value = [field(1, 2, tag.as_bytes()), scalar].concat();
        let event =
            [field(1, 1, &1.5f64.to_le_bytes()), field(2, 0, &[step]), field(5, 2, &field(1, 2, &value))].concat();
        framed(&event)
    }

    pub(crate) fn framed(data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u64).to_le_bytes();
        [&length[..], &masked_crc(&length).to_le_bytes(), data, &masked_crc(data).to_le_bytes()].concat()
    }

    #[test]
    fn the_checksum_matches_published_values() {
        // RFC 3720, B.4: 32 bytes of zeros and the digits.
        let crc = |data: &[u8]| masked_crc(data).wrapping_sub(MASK_DELTA).rotate_left(15);
        assert_eq!(crc(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn scalars_of_both_kinds_are_read_for_any_cut_of_the_file_and_large_records_are_skipped() {
        let file = [
            framed(b"\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x1a\x0dbrain.Event:2"),
            record(1, "loss", 0.5, false),
            framed(&vec![7; 100_000]),
            record(2, "epoch_loss", 0.25, true),
        ]
        .concat();
        assert!(may_begin(&file) && may_begin(&file[..3]) && !may_begin(b"Epoch 1/3"));
        for cut in 0..file.len().min(300) {
            let mut seen = Vec::new();
            let mut decoder = TensorboardDecoder::default();
            for part in [&file[..cut], &file[cut..]] {
                decoder.push(part, |s| seen.push((s.step, String::from_utf8_lossy(s.tag).into_owned(), s.value)));
            }
            assert_eq!(seen, [(1, "loss".to_owned(), 0.5), (2, "epoch_loss".to_owned(), 0.25)], "cut at {cut}");
        }
    }

    #[test]
    fn an_incomplete_record_and_a_damaged_record_lose_only_their_own_scalar() {
        let mut file =
            [record(1, "loss", 0.5, false), record(2, "loss", 0.25, false), record(3, "loss", 0.125, false)].concat();
        let second = record(1, "loss", 0.5, false).len();
        file[second + HEAD + 3] ^= 1;
        file.truncate(file.len() - 1);
        let mut values = Vec::new();
        TensorboardDecoder::default().push(&file, |scalar| values.push(scalar.value));
        assert_eq!(values, [0.5]);
    }
}
