//===- VerifyPlaces.cpp - are live buffers disjoint? ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/memory/VerifyPlaces.h"

#include "package/verify/RangeTree.h"
#include "schedule/memory/Lifetimes.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

namespace {

/// A range of places, without `end`. A place is the bytes between two
/// neighbouring ends of buffers, or the region after a symbolic offset.
struct Range {
  size_t begin, end;
};

struct Placed {
  ir::BufferOp buffer;
  Range range;
};

class PlaceChecker {
public:
  explicit PlaceChecker(ir::ProgramOp program) : program(program) {}

  LogicalResult run() {
    auto lifetimes = lifetimesOf(program);
    if (failed(lifetimes) || failed(collect()))
      return failure();
    if (lifetimes->empty())
      return success();
    for (size_t s = 0, e = lifetimes->front().second.last.size(); s < e; ++s)
      if (failed(checkStream(s, *lifetimes)))
        return failure();
    return success();
  }

private:
  LogicalResult collect();
  LogicalResult
  checkStream(size_t stream,
              const llvm::MapVector<int64_t, Lifetime> &lifetimes);

  ir::ProgramOp program;
  DenseMap<int64_t, SmallVector<Placed, 2>> memories;
  size_t places = 0;
};

} // namespace

LogicalResult PlaceChecker::collect() {
  SmallVector<ir::BufferOp> fixed;
  SmallVector<int64_t> ends;
  DenseMap<Attribute, size_t> regions; // by offset
  auto bytesOf = [](ir::BufferOp buffer) {
    int64_t begin = cast<IntegerAttr>(buffer.getOffsetAttr()).getInt();
    return std::pair(begin,
                     begin + cast<IntegerAttr>(buffer.getBytes()).getInt());
  };
  for (auto buffer : program.getBody().getOps<ir::BufferOp>()) {
    bool isArena = buffer.getKind() == "arena";
    if (!isArena && buffer.getKind() != "persistent")
      continue;
    if (!buffer.getOffsetAttr())
      return buffer.emitOpError("has no place");
    if (!isArena)
      continue;
    if (isa<IntegerAttr>(buffer.getOffsetAttr()) &&
        isa<IntegerAttr>(buffer.getBytes())) {
      auto [begin, end] = bytesOf(buffer);
      ends.append({begin, end});
      fixed.push_back(buffer);
      continue;
    }
    auto [region, isNew] = regions.try_emplace(buffer.getOffsetAttr(), places);
    places += isNew;
    memories[buffer.getMemory()].push_back(
        {buffer, {region->second, region->second + 1}});
  }
  llvm::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  auto placeOf = [&](int64_t byte) -> size_t {
    return places + (llvm::lower_bound(ends, byte) - ends.begin());
  };
  for (ir::BufferOp buffer : fixed) {
    auto [begin, end] = bytesOf(buffer);
    memories[buffer.getMemory()].push_back(
        {buffer, {placeOf(begin), placeOf(end)}});
  }
  places += ends.size();
  return success();
}

/// Memories come in the order of their first use, in which the commands can
/// run. So an earlier memory that shares bytes must have ended on all streams
/// when a use of the later one begins.
LogicalResult
PlaceChecker::checkStream(size_t stream,
                          const llvm::MapVector<int64_t, Lifetime> &lifetimes) {
  package::RangeTree lastUses(places);
  for (const auto &[memory, life] : lifetimes) {
    auto placed = memories.find(memory);
    if (placed == memories.end())
      continue;
    for (auto &[buffer, range] : placed->second)
      if (lastUses.get(range.begin, range.end) >= life.reached[stream])
        return buffer.emitOpError("shares bytes with another live buffer");
    for (auto &[buffer, range] : placed->second)
      lastUses.put(range.begin, range.end, life.last[stream]);
  }
  return success();
}

LogicalResult verifyPlaces(ir::ProgramOp program) {
  return PlaceChecker(program).run();
}

} // namespace schedule
} // namespace anabranch
