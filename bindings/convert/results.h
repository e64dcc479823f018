// The results of the core that Python sees as objects with named fields. results.cc has the fields:
// a field that the core adds to one of them gets a line there, and one in the class in Python.
#pragma once

#include <string>

#include "convert/records.h"
#include "topicdb/database.h"
#include "topicdb/envelope.h"
#include "topicdb/job.h"
#include "topicdb/queue_inspector.h"
#include "topicdb/repair.h"
#include "topicdb/subscription.h"
#include "topicdb/verify.h"

namespace topicdb::python {

// A snapshot, or a database that was restored from one, in which case `info` has no serials.
struct MadeCopy {
  std::string path;
  SnapshotInfo info;
};

template <>
struct Record<Receipt> {
  static constexpr char kName[] = "Receipt";
  static RecordFields<Receipt>& Fields();
};

template <>
struct Record<Page> {
  static constexpr char kName[] = "Page";
  static RecordFields<Page>& Fields();
};

template <>
struct Record<ScanPage> {
  static constexpr char kName[] = "ScanStep";
  static RecordFields<ScanPage>& Fields();
};

template <>
struct Record<Slice> {
  static constexpr char kName[] = "Slice";
  static RecordFields<Slice>& Fields();
  static Slice Take(pybind11::handle record);
};

template <>
struct Record<CommitSpan> {
  static constexpr char kName[] = "CommitSpan";
  static RecordFields<CommitSpan>& Fields();
};

template <>
struct Record<MessageGroup> {
  static constexpr char kName[] = "MessageGroup";
  static RecordFields<MessageGroup>& Fields();
};

template <>
struct Record<Delivered> {
  static constexpr char kName[] = "Delivered";
  static RecordFields<Delivered>& Fields();
};

template <>
struct Record<Loss> {
  static constexpr char kName[] = "Loss";
  static RecordFields<Loss>& Fields();
};

template <>
struct Record<Envelope> {
  static constexpr char kName[] = "Envelope";
  static RecordFields<Envelope>& Fields();
};

template <>
struct Record<StagedTask> {
  static constexpr char kName[] = "Staged";
  static RecordFields<StagedTask>& Fields();
};

template <>
struct Record<JobReceipt> {
  static constexpr char kName[] = "Committed";
  static RecordFields<JobReceipt>& Fields();
};

template <>
struct Record<JobInfo> {
  static constexpr char kName[] = "Applied";
  static RecordFields<JobInfo>& Fields();
};

template <>
struct Record<RetentionClass> {
  static constexpr char kName[] = "RetentionClass";
  static RecordFields<RetentionClass>& Fields();
  static RetentionClass Take(pybind11::handle record);
};

template <>
struct Record<SlabUsage> {
  static constexpr char kName[] = "SlabUsage";
  static RecordFields<SlabUsage>& Fields();
};

template <>
struct Record<StructureUsage> {
  static constexpr char kName[] = "StructureUsage";
  static RecordFields<StructureUsage>& Fields();
};

template <>
struct Record<DroppedSlab> {
  static constexpr char kName[] = "Dropped";
  static RecordFields<DroppedSlab>& Fields();
};

template <>
struct Record<Maintenance> {
  static constexpr char kName[] = "Maintained";
  static RecordFields<Maintenance>& Fields();
};

template <>
struct Record<QuotaState> {
  static constexpr char kName[] = "QuotaState";
  static RecordFields<QuotaState>& Fields();
};

template <>
struct Record<TrimCount> {
  static constexpr char kName[] = "TrimCount";
  static RecordFields<TrimCount>& Fields();
};

template <>
struct Record<MadeCopy> {
  static constexpr char kName[] = "Snapshot";
  static RecordFields<MadeCopy>& Fields();
};

template <>
struct Record<Problem> {
  static constexpr char kName[] = "Problem";
  static RecordFields<Problem>& Fields();
};

template <>
struct Record<Verification> {
  static constexpr char kName[] = "Verification";
  static RecordFields<Verification>& Fields();
};

template <>
struct Record<Repair> {
  static constexpr char kName[] = "Repair";
  static RecordFields<Repair>& Fields();
};

template <>
struct Record<QueueReceipt> {
  static constexpr char kName[] = "QueueReceipt";
  static RecordFields<QueueReceipt>& Fields();
};

template <>
struct Record<QueueDamage> {
  static constexpr char kName[] = "Damage";
  static RecordFields<QueueDamage>& Fields();
};

template <>
struct Record<SegmentInfo> {
  static constexpr char kName[] = "Segment";
  static RecordFields<SegmentInfo>& Fields();
};

template <>
struct Record<CursorInfo> {
  static constexpr char kName[] = "StoredCursor";
  static RecordFields<CursorInfo>& Fields();
};

template <>
struct Record<QueueInfo> {
  static constexpr char kName[] = "QueueInfo";
  static RecordFields<QueueInfo>& Fields();
};

// Takes the classes from the Python layer, each of which has the name of one here. Throws TypeError
// if one is missing, is none of these, or has other fields. REQUIRES: the GIL
void ConfigureResults(const pybind11::args& types);

}  // namespace topicdb::python
