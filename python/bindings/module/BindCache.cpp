//===- BindCache.cpp - the store of compiled packages ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Cache.h"
#include "module/Bind.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "tensors/Torch.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

namespace {

using Source = std::pair<std::string, std::string>;
using Blob = std::pair<std::string, nb::bytes>;

template <typename T> T checked(Expected<T> result) {
  check(result.status());
  return std::move(*result);
}

/// `work()` without the GIL.
template <typename Work> auto released(Work work) {
  GilReleased released;
  return work();
}

void publish(CacheEntry &self, const std::vector<Source> &sources,
             const std::vector<Blob> &blobs, const std::string &text) {
  std::vector<CacheFile> files;
  files.reserve(sources.size() + blobs.size());
  for (const auto &[name, source] : sources)
    files.push_back({name, source, ""});
  for (const auto &[name, bytes] : blobs)
    files.push_back({name, "", std::string(bytes.c_str(), bytes.size())});
  check(released([&] { return self.publish(files, text); }));
}

nb::list listEntries(const std::string &root) {
  nb::list list;
  for (const CacheEntryInfo &entry : listCache(root)) {
    nb::dict row;
    row["kind"] = entry.kind;
    row["key"] = entry.key;
    row["folder"] = entry.folder;
    row["bytes"] = entry.bytes;
    row["added"] = entry.added;
    row["last_use"] = entry.lastUse;
    list.append(row);
  }
  return list;
}

nb::dict prune(const std::string &root, uint64_t limit) {
  CachePruned pruned = released([&] { return pruneCache(root, limit); });
  nb::dict row;
  row["entries"] = pruned.entries;
  row["bytes"] = pruned.bytes;
  row["litter"] = pruned.litter;
  row["kept"] = pruned.kept;
  return row;
}

std::string hashOf(nb::bytes bytes) {
  return hashBytes(bytes.c_str(), bytes.size());
}

/// The elements of a contiguous tensor.
std::string hashTensor(nb::object tensor) {
  dlpack::Tensor view;
  if (!Torch::get().isTensor(tensor.ptr()))
    throw nb::type_error("expected a tensor");
  if (!Torch::get().view(tensor.ptr(), view))
    throw nb::python_error();
  size_t bytes = (size_t(view.dtype.bits) * view.dtype.lanes + 7) / 8;
  for (int32_t d = 0; d < view.rank; ++d)
    bytes *= size_t(view.shape[d]);
  const char *data = static_cast<char *>(view.data) + view.byteOffset;
  return released([&] { return hashBytes(data, bytes); });
}

} // namespace

void python::bindCache(nb::module_ &module) {
  nb::class_<CacheEntry>(module, "CacheEntry")
      .def(nb::init<std::string, std::string, std::string>(), nb::arg("folder"),
           nb::arg("index") = "entry.json", nb::arg("trust") = "")
      .def(
          "lock",
          [](CacheEntry &self, bool exclusive, double seconds) {
            return checked(
                released([&] { return self.lock(exclusive, seconds); }));
          },
          nb::arg("exclusive"), nb::arg("seconds"))
      .def("unlock", &CacheEntry::unlock)
      .def("read",
           [](const CacheEntry &self) {
             return checked(released([&] { return self.read(); }));
           })
      .def("publish", &publish, nb::arg("sources"), nb::arg("blobs"),
           nb::arg("text"))
      .def("remove", [](CacheEntry &self) {
        check(released([&] { return self.remove(); }));
      });
  module.def("cache_folder", &cacheFolder);
  module.def("cache_limit", [] { return checked(cacheLimit()); });
  module.def("cache_entries", &listEntries, nb::arg("root"));
  module.def("prune_cache", &prune, nb::arg("root"), nb::arg("limit"));
  module.def("cpu_identity", &cpuIdentity);
  module.def("compiler_identity", &compilerIdentity);
  module.def("hash_bytes", &hashOf, nb::arg("bytes"));
  module.def("hash_tensor", &hashTensor, nb::arg("tensor"));
}
