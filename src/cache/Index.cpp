//===- Index.cpp - what an entry of the cache lists -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Index.h"

#include "package/files/FileHash.h"

#include <nlohmann/json.hpp>

namespace anabranch::cache {

using nlohmann::json;

namespace {

constexpr int format = 3;
constexpr std::string_view sealMark = "xxh128 ";

Status refuseIndex(const std::string &why) {
  return Status(StatusCode::BadPackage, "the index is refused: " + why);
}

/// The last line of an index: the hash of the lines before it.
std::string sealOf(std::string_view body) {
  std::string hash = package::FileHash::of(body.data(), body.size());
  return std::string(sealMark) + hash + "\n";
}

/// A name is plain if it names a file in the entry's own folder.
bool isPlain(const std::string &name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

} // namespace

std::string writeIndex(const Index &index) {
  json files = json::array();
  for (const IndexFile &file : index.files)
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"hash", file.hash}});
  json root = {
      {"anabranch_cache", format}, {"files", files}, {"text", index.text}};
  std::string bytes =
      root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  return bytes + sealOf(bytes);
}

Expected<Index> readIndex(std::string_view bytes) {
  size_t sealAt = bytes.rfind(sealMark);
  if (sealAt == std::string_view::npos)
    return refuseIndex("it is truncated or has another format");
  std::string_view body = bytes.substr(0, sealAt);
  if (bytes.substr(sealAt) != sealOf(body))
    return refuseIndex("it was changed");
  json root = json::parse(body, nullptr, false);
  if (!root.is_object() || root.value("anabranch_cache", json()) != format)
    return refuseIndex("it has another format");
  const json files = root.value("files", json());
  const json text = root.value("text", json());
  if (!files.is_array() || !text.is_string())
    return refuseIndex("a field is missing");
  Index index;
  index.text = text.get<std::string>();
  for (const json &row : files) {
    if (!row.is_object() || !row.value("name", json()).is_string() ||
        !row.value("bytes", json()).is_number_unsigned() ||
        !row.value("hash", json()).is_string())
      return refuseIndex("a row of a file is not one");
    index.files.push_back({row["name"], row["bytes"], row["hash"]});
    if (!isPlain(index.files.back().name))
      return refuseIndex("a file lies elsewhere");
  }
  return index;
}

} // namespace anabranch::cache
