//===- Manifest.cpp - what a package says about itself --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace anabranch::package {

using nlohmann::json;

namespace {

/// Stands in for an object that is missing.
const json nothing = json::object();

constexpr const char *kind = "anabranch-package";

/// Reads members of an object, and remembers the first one of a wrong type or
/// value.
class Fields {
public:
  explicit Fields(const json &object) : object(object) {}

  std::string text(const char *key) {
    const json *v = member(key, json::value_t::string);
    return v ? v->get<std::string>() : "";
  }
  bool boolean(const char *key) {
    const json *v = member(key, json::value_t::boolean);
    return v && v->get<bool>();
  }
  uint64_t number(const char *key) {
    const json *v = member(key, json::value_t::number_unsigned);
    return v ? v->get<uint64_t>() : 0;
  }
  std::vector<std::string> texts(const char *key) {
    std::vector<std::string> result;
    const json *list = member(key, json::value_t::array);
    for (const json &item : list ? *list : json::array())
      if (item.is_string())
        result.push_back(item.get<std::string>());
      else
        fail(key);
    return result;
  }
  const json *member(const char *key, json::value_t type) {
    auto it = object.find(key);
    if (it != object.end() && it->type() == type)
      return &*it;
    fail(key);
    return nullptr;
  }
  void fail(const std::string &key) {
    if (wrong.empty())
      wrong = key;
  }

  std::string wrong;

private:
  const json &object;
};

std::map<std::string, ManifestFile> readFiles(Fields &fields) {
  std::map<std::string, ManifestFile> files;
  const json *list = fields.member("files", json::value_t::object);
  if (!list)
    return files;
  for (const auto &[name, value] : list->items()) {
    if (!value.is_object()) {
      fields.fail("files");
      break;
    }
    Fields file(value);
    ManifestFile &row = files[name];
    row.bytes = file.number("bytes");
    if (value.contains("hash"))
      row.hash = file.text("hash");
    if (!file.wrong.empty())
      fields.fail("files/" + name + "/" + file.wrong);
  }
  return files;
}

std::vector<ManifestTarget> readTargets(Fields &fields) {
  std::vector<ManifestTarget> targets;
  const json *list = fields.member("targets", json::value_t::array);
  for (const json &item : list ? *list : json::array()) {
    Fields row(item.is_object() ? item : nothing);
    ManifestTarget &target = targets.emplace_back();
    target.name = row.text("name");
    target.cpu = row.text("cpu");
    target.features = row.texts("features");
    target.kernels = row.texts("kernels");
    target.prepared = row.boolean("prepared");
    if (!isTargetName(target.name))
      row.fail("name");
    for (size_t i = 0; i + 1 < targets.size(); ++i)
      if (targets[i].name == target.name)
        row.fail("name");
    if (!row.wrong.empty())
      fields.fail("targets/" + row.wrong);
  }
  return targets;
}

Signature readSignature(Fields &fields) {
  Signature signature;
  const json *found = fields.member("signature", json::value_t::object);
  if (!found)
    return signature;
  Fields object(*found);
  signature.outputs = object.texts("outputs");
  const json *inputs = object.member("inputs", json::value_t::array);
  for (const json &item : inputs ? *inputs : json::array()) {
    Fields row(item.is_object() ? item : nothing);
    signature.inputs.push_back({row.text("name"), row.boolean("state")});
    if (!row.wrong.empty())
      object.fail("inputs/" + row.wrong);
  }
  if (!object.wrong.empty())
    fields.fail("signature/" + object.wrong);
  signature.json = found->dump(-1, ' ', false, json::error_handler_t::replace);
  return signature;
}

json targetsJson(const std::vector<ManifestTarget> &targets) {
  json list = json::array();
  for (const ManifestTarget &target : targets)
    list.push_back({{"name", target.name},
                    {"cpu", target.cpu},
                    {"features", target.features},
                    {"kernels", target.kernels},
                    {"prepared", target.prepared}});
  return list;
}

} // namespace

bool isTargetName(std::string_view name) {
  auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

std::string toJson(const Manifest &manifest) {
  json files = json::object();
  for (const auto &[name, file] : manifest.files) {
    json &row = files[name] = {{"bytes", file.bytes}};
    if (!file.hash.empty())
      row["hash"] = file.hash;
  }
  json config = json::parse(manifest.config, nullptr, false);
  json root = {
      {"kind", kind},
      {"format", manifest.format},
      {"abi", manifest.abi},
      {"anabranch", manifest.anabranch},
      {"name", manifest.name},
      {"cpu", manifest.cpu},
      {"features", manifest.features},
      {"needs_libtorch", manifest.needsLibtorch},
      {"kernels", manifest.kernels},
      {"files", files},
      {"config", config.is_discarded() ? json(manifest.config) : config},
      {"extras", manifest.extras}};
  if (!manifest.targets.empty())
    root["targets"] = targetsJson(manifest.targets);
  if (!manifest.signature.json.empty())
    root["signature"] = json::parse(manifest.signature.json, nullptr, false);
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Expected<Manifest> parseManifest(std::string_view text) {
  auto refuse = [](const std::string &why) {
    return Status(StatusCode::BadPackage, "manifest.json is refused: " + why);
  };
  json root = json::parse(text, nullptr, false);
  if (!root.is_object())
    return refuse("it is not a JSON object");
  Fields fields(root);
  if (fields.text("kind") != kind)
    return refuse("this is not an Anabranch package");
  Manifest m;
  m.format = static_cast<int>(fields.number("format"));
  // The format is checked before the other fields: another format may lack
  // them.
  if (m.format != formatVersion)
    return refuse("it has format " + std::to_string(m.format) +
                  ", this runtime reads format " +
                  std::to_string(formatVersion) +
                  "; compile the model again with this version");
  m.abi = static_cast<int>(fields.number("abi"));
  m.anabranch = fields.text("anabranch");
  m.name = fields.text("name");
  m.cpu = fields.text("cpu");
  m.features = fields.texts("features");
  if (root.contains("targets"))
    m.targets = readTargets(fields);
  if (root.contains("signature"))
    m.signature = readSignature(fields);
  m.needsLibtorch = fields.boolean("needs_libtorch");
  m.kernels = fields.texts("kernels");
  m.files = readFiles(fields);
  if (root.contains("config"))
    m.config =
        root["config"].dump(-1, ' ', false, json::error_handler_t::replace);
  if (const json *extras = fields.member("extras", json::value_t::object))
    for (const auto &[key, value] : extras->items())
      if (value.is_string())
        m.extras[key] = value.get<std::string>();
  if (!fields.wrong.empty())
    return refuse("field '" + fields.wrong +
                  "' is missing or has a wrong type");
  return m;
}

} // namespace anabranch::package
