//===- Index.cpp - what an entry of the cache lists -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Index.h"

#include "package/files/Sha256.h"

#include <nlohmann/json.hpp>

namespace anabranch::cache {

using nlohmann::json;

namespace {

constexpr int format = 2;
constexpr std::string_view sealMark = "sha256 ";
constexpr size_t sealSize = sealMark.size() + 64 + 1;

Status refuse(const std::string &why) {
  return Status(StatusCode::BadPackage, "the index is refused: " + why);
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
  std::string hash = package::Sha256::of(bytes.data(), bytes.size());
  return bytes.append(sealMark).append(hash).append("\n");
}

Expected<Index> readIndex(std::string_view bytes) {
  if (bytes.size() < sealSize)
    return refuse("it is truncated");
  std::string_view body = bytes.substr(0, bytes.size() - sealSize);
  std::string seal(sealMark);
  seal += package::Sha256::of(body.data(), body.size()) + "\n";
  if (bytes.substr(body.size()) != seal)
    return refuse("it was changed");
  json root = json::parse(body, nullptr, false);
  if (!root.is_object() || root.value("anabranch_cache", json()) != format)
    return refuse("it has another format");
  const json files = root.value("files", json());
  const json text = root.value("text", json());
  if (!files.is_array() || !text.is_string())
    return refuse("a field is missing");
  Index index;
  index.text = text.get<std::string>();
  for (const json &row : files) {
    if (!row.is_object() || !row.value("name", json()).is_string() ||
        !row.value("bytes", json()).is_number_unsigned() ||
        !row.value("hash", json()).is_string())
      return refuse("a row of a file is not one");
    index.files.push_back({row["name"], row["bytes"], row["hash"]});
    if (!isPlain(index.files.back().name))
      return refuse("a file lies elsewhere");
  }
  return index;
}

} // namespace anabranch::cache
