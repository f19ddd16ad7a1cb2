//===- AnabranchOps.td - everything, for tablegen ----------*- tablegen -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

include "AtenOps.td"
include "ScopeOps.td"
include "ScheduleOps.td"
