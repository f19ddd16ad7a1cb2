//===- AnabranchOps.td - everything, for tablegen ----------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0

include "AtenOps.td"
include "ScopeOps.td"
include "ScheduleOps.td"
