//===- ObjectCache.h - kernels that were compiled before ------ -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_OBJECTCACHE_H
#define ANABRANCH_BINDINGS_OBJECTCACHE_H

#include "anabranch/Compiler.h"

#include <string>

namespace anabranch::python {

/// The compiler's store of machine code, as entries of the compile cache. Each
/// entry is absent or whole. If an entry cannot be read, it counts as absent.
class ObjectCache {
public:
  /// `folder` holds entries `<hh>/<key>/`, read as `trust` says (Cache.h).
  ObjectCache(std::string folder, std::string identity, std::string trust);
  ObjectCache(const ObjectCache &) = delete;
  ObjectCache &operator=(const ObjectCache &) = delete;

  anabranch_object_store store = {};

private:
  std::string placeOf(const std::string &key) const;
  std::string folder, identity, trust;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_OBJECTCACHE_H
