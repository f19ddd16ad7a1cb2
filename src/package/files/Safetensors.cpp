//===- Safetensors.cpp - constants on disk, mapped ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace anabranch::package {

using nlohmann::json;

namespace {

constexpr uint64_t alignment = 64;
constexpr uint64_t headerLimit = 100u << 20; // the format's own limit

/// The format's names of dtypes. The last four are our own, for dtypes that the
/// format lacks.
constexpr const char *names[dtypeCount] = {
    "BOOL", "U8",   "I8",      "I16",     "I32",         "I64",        "F16",
    "BF16", "F32",  "F64",     "U16",     "U32",         "U64",        "C32",
    "C64",  "C128", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

Status refuse(const std::string &why) {
  return Status(StatusCode::BadPackage,
                "constants.safetensors is refused: " + why);
}

bool parseDType(const std::string &text, anabranch::DType &dtype) {
  for (int i = 0; i < dtypeCount; ++i)
    if (text == names[i]) {
      dtype = static_cast<anabranch::DType>(i);
      return true;
    }
  return false;
}

/// Bytes of a dense tensor. False on overflow or a negative size.
bool denseBytes(anabranch::DType dtype, const std::vector<int64_t> &shape,
                uint64_t &bytes) {
  bytes = itemSize(dtype);
  for (int64_t size : shape)
    if (size < 0 ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      return false;
  return true;
}

/// Reads one entry of the header. The data have `room` bytes.
Status readEntry(const json &entry, const char *data, uint64_t room,
                 StoredTensor &tensor) {
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets"))
    return refuse("a tensor lacks dtype, shape or data_offsets");
  const json &dtype = entry["dtype"], &shape = entry["shape"],
             &offsets = entry["data_offsets"];
  if (!dtype.is_string() || !parseDType(dtype.get<std::string>(), tensor.dtype))
    return refuse("a tensor has an unknown dtype");
  if (!shape.is_array() || shape.size() > 64)
    return refuse("a tensor has a malformed shape");
  for (const json &size : shape) {
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      return refuse("a tensor has a malformed shape");
    tensor.shape.push_back(size.get<int64_t>());
  }
  if (!offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return refuse("a tensor has malformed data_offsets");
  uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  uint64_t bytes;
  if (begin > end || end > room ||
      !denseBytes(tensor.dtype, tensor.shape, bytes) || bytes != end - begin)
    return refuse("a tensor's data_offsets do not fit its shape or the file");
  tensor.data = data + begin;
  tensor.bytes = bytes;
  if (reinterpret_cast<uintptr_t>(tensor.data) % itemSize(tensor.dtype))
    return refuse("a tensor is not aligned");
  return {};
}

json entryFor(anabranch::DType dtype, const std::vector<int64_t> &shape,
              uint64_t begin, uint64_t end) {
  return {{"dtype", names[static_cast<int>(dtype)]},
          {"shape", shape},
          {"data_offsets", {begin, end}}};
}

} // namespace

Expected<Safetensors> Safetensors::read(Mapping file) {
  if (file.size() < 8)
    return refuse("it is truncated");
  Safetensors result;
  result.file = std::move(file);
  if (Status s = result.parse(); !s.ok())
    return s;
  return result;
}

Status Safetensors::parse() {
  const char *bytes = file.data();
  uint64_t size = file.size();
  uint64_t headerSize;
  std::memcpy(&headerSize, bytes, 8);
  if (headerSize > headerLimit || headerSize > size - 8)
    return refuse("its header is truncated");
  json header = json::parse(bytes + 8, bytes + 8 + headerSize, nullptr, false);
  if (!header.is_object())
    return refuse("its header is not a JSON object");
  const char *data = bytes + 8 + headerSize;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    if (Status s = readEntry(entry, data, size - 8 - headerSize, tensors[name]);
        !s.ok())
      return s;
  }
  return {};
}

const StoredTensor *Safetensors::find(const std::string &name) const {
  auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

Expected<std::string> safetensorsHeader(const std::vector<Constant> &constants,
                                        std::vector<uint64_t> &offsets) {
  json header = json::object();
  std::set<std::string> seen;
  uint64_t at = 0;
  for (const Constant &c : constants) {
    uint64_t bytes;
    if (!seen.insert(c.name).second || c.name.empty() ||
        c.name.rfind("__", 0) == 0)
      return Status(StatusCode::Internal,
                    "constant '" + c.name + "' has no name of its own");
    if (itemSize(c.dtype) == 0 || !denseBytes(c.dtype, c.shape, bytes))
      return Status(StatusCode::Internal,
                    "constant '" + c.name + "' has an impossible shape");
    if (uint64_t rest = at % alignment) {
      uint64_t next = at + alignment - rest;
      header["__padding__" + std::to_string(at)] = entryFor(
          anabranch::DType::U8, {static_cast<int64_t>(next - at)}, at, next);
      at = next;
    }
    header[c.name] = entryFor(c.dtype, c.shape, at, at + bytes);
    offsets.push_back(at);
    at += bytes;
  }
  std::string text =
      header.dump(-1, ' ', false, json::error_handler_t::replace);
  // Spaces after the header move the first tensor to a multiple of 64.
  text.append((alignment - (8 + text.size()) % alignment) % alignment, ' ');
  uint64_t length = text.size();
  std::string result(reinterpret_cast<const char *>(&length), 8);
  result += text;
  for (uint64_t &offset : offsets)
    offset += result.size();
  return result;
}

} // namespace anabranch::package
