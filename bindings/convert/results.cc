#include "convert/results.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/durability.h"
#include "convert/errors.h"
#include "convert/messages.h"
#include "convert/numbers.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// Returns {shard: serial}.
py::object SerialsOf(const std::vector<std::pair<std::uint32_t, Serial>>& serials) {
  py::dict found;
  for (const auto& [shard, serial] : serials) found[py::int_(shard)] = serial;
  return found;
}

py::object RangeOf(const SequenceRange& range) {
  return py::handle(reinterpret_cast<PyObject*>(&PyRange_Type))(range.first, range.end());
}

py::object NoneIfEmpty(const std::string& text) {
  return text.empty() ? py::object(py::none()) : Object(text);
}

const char* NameOf(SlabDropReason reason) {
  switch (reason) {
    case SlabDropReason::kAge:
      return "age";
    case SlabDropReason::kBytes:
      return "bytes";
    case SlabDropReason::kQuota:
      return "quota";
    case SlabDropReason::kKeepLast:
      return "keep_last";
  }
  return "?";
}

// Returns the name of a layout, or None.
py::object LayoutOf(const std::optional<LayoutKind>& layout) {
  return layout.has_value() ? Object(NameOf(*layout)) : py::none();
}

py::object BytesOf(const std::optional<std::string_view>& bytes) {
  return bytes.has_value() ? py::object(py::bytes(bytes->data(), bytes->size())) : py::none();
}

template <typename... Values>
std::vector<RecordClass*> ClassesOf() {
  return {&Record<Values>::Fields()...};
}

}  // namespace

// Messages.

RecordFields<Receipt>& Record<Receipt>::Fields() {
  static RecordFields<Receipt> fields(
      kName,
      {{"serials", [](const Receipt& receipt) { return SerialsOf(receipt.serials); }},
       {"count", &Member<&Receipt::count>},
       {"durability", [](const Receipt& receipt) { return Object(NameOf(receipt.durability)); }},
       {"repeated", &Member<&Receipt::repeated>}});
  return fields;
}

RecordFields<Page>& Record<Page>::Fields() {
  static RecordFields<Page> fields(
      kName, {{"iterator", &Member<&Page::iterator>},
              {"batch", [](const Page& page) { return WrapBatch(page.batch); }},
              {"end_of_stream", &Member<&Page::end_of_stream>}});
  return fields;
}

RecordFields<ScanPage>& Record<ScanPage>::Fields() {
  static RecordFields<ScanPage> fields(
      kName, {{"iterator", &Member<&ScanPage::iterator>},
              {"batch", [](const ScanPage& page) { return WrapBatch(page.batch); }},
              {"end_of_scan", &Member<&ScanPage::end_of_scan>},
              {"loss", &Member<&ScanPage::loss>}});
  return fields;
}

RecordFields<Slice>& Record<Slice>::Fields() {
  static RecordFields<Slice> fields(
      kName, {{"shard", [](const Slice& slice) { return Object(slice.slab.shard); }},
              {"retention_class", &Member<&Slice::retention_class>},
              {"generation", [](const Slice& slice) { return Object(slice.slab.generation); }},
              {"after", &Member<&Slice::after>},
              {"until", &Member<&Slice::until>},
              {"start", [](const Slice& slice) { return Object(slice.range.start); }},
              {"end", [](const Slice& slice) { return Object(slice.range.end); }},
              {"messages", &Member<&Slice::messages>},
              {"bytes", &Member<&Slice::bytes>},
              {"layout", [](const Slice& slice) { return LayoutOf(slice.layout); }}});
  return fields;
}

Slice Record<Slice>::Take(py::handle record) {
  Slice slice;
  slice.slab.shard = TakeField<std::uint32_t>(record, "shard");
  slice.retention_class = TakeField<std::string>(record, "retention_class");
  slice.slab.generation = TakeField<Generation>(record, "generation");
  slice.after = TakeField<Serial>(record, "after");
  slice.until = TakeField<Serial>(record, "until");
  slice.range.start = TakeField<std::optional<std::int64_t>>(record, "start");
  slice.range.end = TakeField<std::optional<std::int64_t>>(record, "end");
  slice.messages = TakeField<std::uint64_t>(record, "messages");
  slice.bytes = TakeField<std::uint64_t>(record, "bytes");
  slice.layout = Unwrap(LayoutNamed(TakeField<std::string>(record, "layout")));
  return slice;
}

RecordFields<CommitSpan>& Record<CommitSpan>::Fields() {
  static RecordFields<CommitSpan> fields(kName, {{"until", &Member<&CommitSpan::until>},
                                                 {"messages", &Member<&CommitSpan::messages>},
                                                 {"bytes", &Member<&CommitSpan::bytes>}});
  return fields;
}

RecordFields<MessageGroup>& Record<MessageGroup>::Fields() {
  static RecordFields<MessageGroup> fields(kName,
                                           {{"topic", &Member<&MessageGroup::topic>},
                                            {"span_start", &Member<&MessageGroup::span_start>},
                                            {"messages", &Member<&MessageGroup::messages>},
                                            {"first_timestamp", &Member<&MessageGroup::first_time>},
                                            {"last_timestamp", &Member<&MessageGroup::last_time>}});
  return fields;
}

RecordFields<Delivered>& Record<Delivered>::Fields() {
  static RecordFields<Delivered> fields(
      kName,
      {{"batch", [](const Delivered& delivered) { return WrapBatch(delivered.batch); }},
       {"seqno", &Member<&Delivered::seqno>},
       {"shard", &Member<&Delivered::shard>},
       {"serial", [](const Delivered& delivered) { return Object(delivered.next.serial); }},
       {"row", [](const Delivered& delivered) { return Object(delivered.next.index); }},
       {"is_live", &Member<&Delivered::is_live>},
       {"rows", [](const Delivered& delivered) -> py::object { return ArrayOf(delivered.rows); }},
       {"loss", &Member<&Delivered::loss>}});
  return fields;
}

RecordFields<Loss>& Record<Loss>::Fields() {
  static RecordFields<Loss> fields(kName, {{"shard", &Member<&Loss::shard>},
                                           {"retention_class", &Member<&Loss::retention_class>},
                                           {"generation", &Member<&Loss::generation>},
                                           {"serial", &Member<&Loss::serial>},
                                           {"messages", &Member<&Loss::messages>}});
  return fields;
}

RecordFields<Envelope>& Record<Envelope>::Fields() {
  static RecordFields<Envelope> fields(
      kName, {{"payload", [](const Envelope& envelope) { return BytesOf(envelope.payload); }},
              {"qos", &Member<&Envelope::qos>},
              {"retain", &Member<&Envelope::retain>},
              {"client_id", &Member<&Envelope::client_id>},
              {"payload_format", &Member<&Envelope::payload_format>},
              {"message_expiry_s", &Member<&Envelope::message_expiry_s>},
              {"content_type", &Member<&Envelope::content_type>},
              {"response_topic", &Member<&Envelope::response_topic>},
              {"correlation_data",
               [](const Envelope& envelope) { return BytesOf(envelope.correlation_data); }},
              {"user_properties",
               [](const Envelope& envelope) -> py::object { return UserPropertiesOf(envelope); }},
              {"subscription_ids",
               [](const Envelope& envelope) -> py::object {
                 return py::tuple(Object(envelope.subscription_ids));
               }},
              {"received", &Member<&Envelope::received_at>}});
  return fields;
}

// Jobs.

RecordFields<StagedTask>& Record<StagedTask>::Fields() {
  static RecordFields<StagedTask> fields(kName, {{"file", &Member<&StagedTask::file>},
                                                 {"messages", &Member<&StagedTask::messages>},
                                                 {"bytes", &Member<&StagedTask::bytes>},
                                                 {"malformed", &Member<&StagedTask::malformed>}});
  return fields;
}

RecordFields<JobReceipt>& Record<JobReceipt>::Fields() {
  static RecordFields<JobReceipt> fields(
      kName, {{"serials", [](const JobReceipt& receipt) { return SerialsOf(receipt.serials); }},
              {"messages", &Member<&JobReceipt::messages>},
              {"pending", &Member<&JobReceipt::pending>},
              {"repeated", &Member<&JobReceipt::repeated>}});
  return fields;
}

RecordFields<JobInfo>& Record<JobInfo>::Fields() {
  static RecordFields<JobInfo> fields(kName, {{"shard", &Member<&JobInfo::shard>},
                                              {"sequence", &Member<&JobInfo::sequence>},
                                              {"number", &Member<&JobInfo::number>},
                                              {"first_serial", &Member<&JobInfo::first_serial>},
                                              {"last_serial", &Member<&JobInfo::last_serial>},
                                              {"messages", &Member<&JobInfo::messages>},
                                              {"malformed", &Member<&JobInfo::malformed>},
                                              {"applied_at", &Member<&JobInfo::applied_at>}});
  return fields;
}

// The life of the data.

RecordFields<RetentionClass>& Record<RetentionClass>::Fields() {
  static RecordFields<RetentionClass> fields(
      kName, {{"filter", &Member<&RetentionClass::filter>},
              {"age_us", &Member<&RetentionClass::age>},
              {"bytes_max", &Member<&RetentionClass::bytes_max>},
              {"rotate_us", &Member<&RetentionClass::rotation_period>},
              {"keep_last", &Member<&RetentionClass::keep_last>},
              {"layout", [](const RetentionClass& limits) { return LayoutOf(limits.layout); }}});
  return fields;
}

RetentionClass Record<RetentionClass>::Take(py::handle record) {
  RetentionClass taken;
  taken.filter = TakeField<std::string>(record, "filter");
  taken.age = TakeField<std::chrono::microseconds>(record, "age_us");
  taken.bytes_max = TakeField<std::uint64_t>(record, "bytes_max");
  taken.rotation_period = TakeField<std::chrono::microseconds>(record, "rotate_us");
  taken.keep_last = TakeField<std::uint32_t>(record, "keep_last");
  const auto layout = TakeField<std::optional<std::string>>(record, "layout");
  if (layout.has_value()) taken.layout = Unwrap(LayoutNamed(*layout));
  return taken;
}

RecordFields<SlabUsage>& Record<SlabUsage>::Fields() {
  static RecordFields<SlabUsage> fields(kName,
                                        {{"slab", &Member<&SlabUsage::slab>},
                                         {"disk_bytes", &Member<&SlabUsage::disk_bytes>},
                                         {"garbage_bytes", &Member<&SlabUsage::garbage_bytes>}});
  return fields;
}

RecordFields<StructureUsage>& Record<StructureUsage>::Fields() {
  static RecordFields<StructureUsage> fields(
      kName, {{"retention_class", &Member<&StructureUsage::retention_class>},
              {"structure", &Member<&StructureUsage::structure>},
              {"messages", &Member<&StructureUsage::messages>},
              {"bytes", &Member<&StructureUsage::bytes>},
              {"disk_bytes", &Member<&StructureUsage::disk_bytes>}});
  return fields;
}

RecordFields<DroppedSlab>& Record<DroppedSlab>::Fields() {
  static RecordFields<DroppedSlab> fields(
      kName,
      {{"slab", [](const DroppedSlab& dropped) { return Object(dropped.usage.slab); }},
       {"disk_bytes", [](const DroppedSlab& dropped) { return Object(dropped.usage.disk_bytes); }},
       {"reason", [](const DroppedSlab& dropped) { return Object(NameOf(dropped.reason)); }}});
  return fields;
}

RecordFields<Maintenance>& Record<Maintenance>::Fields() {
  static RecordFields<Maintenance> fields(kName, {{"rotated", &Member<&Maintenance::rotated>},
                                                  {"dropped", &Member<&Maintenance::dropped>},
                                                  {"kept", &Member<&Maintenance::kept>}});
  return fields;
}

RecordFields<QuotaState>& Record<QuotaState>::Fields() {
  static RecordFields<QuotaState> fields(kName, {{"quota_bytes", &Member<&QuotaState::quota_bytes>},
                                                 {"quota_trim", &Member<&QuotaState::quota_trim>},
                                                 {"disk_bytes", &Member<&QuotaState::disk_bytes>}});
  return fields;
}

RecordFields<TrimCount>& Record<TrimCount>::Fields() {
  static RecordFields<TrimCount> fields(
      kName, {{"slabs", &Member<&TrimCount::slabs>}, {"messages", &Member<&TrimCount::messages>}});
  return fields;
}

RecordFields<MadeCopy>& Record<MadeCopy>::Fields() {
  static RecordFields<MadeCopy> fields(
      kName, {{"path", &Member<&MadeCopy::path>},
              {"serials", [](const MadeCopy& copy) { return SerialsOf(copy.info.serials); }},
              {"files", [](const MadeCopy& copy) { return Object(copy.info.counts.files); }},
              {"bytes", [](const MadeCopy& copy) { return Object(copy.info.counts.bytes); }},
              {"copied_bytes",
               [](const MadeCopy& copy) { return Object(copy.info.counts.copied_bytes); }}});
  return fields;
}

// What is on disk.

RecordFields<Problem>& Record<Problem>::Fields() {
  static RecordFields<Problem> fields(kName,
                                      {{"what", &Member<&Problem::what>},
                                       {"shard", &Member<&Problem::shard>},
                                       {"retention_class",
                                        [](const Problem& problem) -> py::object {
                                          if (!problem.slab.has_value()) return py::none();
                                          return Object(problem.retention_class);
                                        }},
                                       {"generation",
                                        [](const Problem& problem) -> py::object {
                                          if (!problem.slab.has_value()) return py::none();
                                          return Object(problem.slab->generation);
                                        }},
                                       {"structures", &Member<&Problem::structures>},
                                       {"messages", &Member<&Problem::messages>},
                                       {"first_timestamp",
                                        [](const Problem& problem) -> py::object {
                                          if (!problem.times.has_value()) return py::none();
                                          return Object(problem.times->first);
                                        }},
                                       {"last_timestamp", [](const Problem& problem) -> py::object {
                                          if (!problem.times.has_value()) return py::none();
                                          return Object(problem.times->second);
                                        }}});
  return fields;
}

RecordFields<Verification>& Record<Verification>::Fields() {
  static RecordFields<Verification> fields(kName, {{"problems", &Member<&Verification::problems>},
                                                   {"shards", &Member<&Verification::shards>},
                                                   {"slabs", &Member<&Verification::slabs>},
                                                   {"blocks", &Member<&Verification::blocks>},
                                                   {"pages", &Member<&Verification::pages>},
                                                   {"messages", &Member<&Verification::messages>}});
  return fields;
}

RecordFields<Repair>& Record<Repair>::Fields() {
  static RecordFields<Repair> fields(
      kName, {{"shards", &Member<&Repair::shards>},
              {"messages", &Member<&Repair::messages>},
              {"quarantine", [](const Repair& repair) { return NoneIfEmpty(repair.quarantine); }},
              {"problems", &Member<&Repair::problems>},
              {"remaining", &Member<&Repair::remaining>}});
  return fields;
}

// Queues.

RecordFields<QueueReceipt>& Record<QueueReceipt>::Fields() {
  static RecordFields<QueueReceipt> fields(
      kName, {{"sequences", [](const QueueReceipt& receipt) { return RangeOf(receipt.items); }},
              {"durability",
               [](const QueueReceipt& receipt) { return Object(NameOf(receipt.durability)); }}});
  return fields;
}

RecordFields<QueueDamage>& Record<QueueDamage>::Fields() {
  static RecordFields<QueueDamage> fields(
      kName, {{"path", &Member<&QueueDamage::path>},
              {"what", &Member<&QueueDamage::what>},
              {"sequences", [](const QueueDamage& damage) { return RangeOf(damage.items); }}});
  return fields;
}

RecordFields<SegmentInfo>& Record<SegmentInfo>::Fields() {
  static RecordFields<SegmentInfo> fields(
      kName, {{"path", &Member<&SegmentInfo::path>},
              {"number", &Member<&SegmentInfo::number>},
              {"sequences", [](const SegmentInfo& segment) { return RangeOf(segment.items); }},
              {"bytes", &Member<&SegmentInfo::bytes>},
              {"sealed", &Member<&SegmentInfo::sealed>}});
  return fields;
}

RecordFields<CursorInfo>& Record<CursorInfo>::Fields() {
  static RecordFields<CursorInfo> fields(
      kName, {{"name", &Member<&CursorInfo::name>},
              {"low_water", &Member<&CursorInfo::low_water>},
              {"next_sequence", &Member<&CursorInfo::next_sequence>},
              {"unacknowledged", &Member<&CursorInfo::unacknowledged>}});
  return fields;
}

RecordFields<QueueInfo>& Record<QueueInfo>::Fields() {
  static RecordFields<QueueInfo> fields(
      kName, {{"format",
               [](const QueueInfo& info) {
                 return Object(info.format == QueueFormat::kReplayq ? "replayq" : "topicdb");
               }},
              {"closed", &Member<&QueueInfo::closed>},
              {"segments", &Member<&QueueInfo::segments>},
              {"cursors", &Member<&QueueInfo::cursors>},
              {"damage", &Member<&QueueInfo::damage>}});
  return fields;
}

void ConfigureResults(const py::args& types) {
  const std::vector<RecordClass*> classes =
      ClassesOf<Receipt, Page, ScanPage, Slice, CommitSpan, MessageGroup, Delivered, Loss, Envelope,
                StagedTask, JobReceipt, JobInfo, RetentionClass, SlabUsage, StructureUsage,
                DroppedSlab, Maintenance, QuotaState, TrimCount, MadeCopy, Problem, Verification,
                Repair, QueueReceipt, QueueDamage, SegmentInfo, CursorInfo, QueueInfo>();
  for (const py::handle given : types) {
    const auto type = given.cast<py::type>();
    const auto name = type.attr("__name__").cast<std::string>();
    const auto found = std::find_if(classes.begin(), classes.end(),
                                    [&](const RecordClass* one) { return one->name() == name; });
    if (found == classes.end()) throw py::type_error(name + ": the extension gives no such result");
    (*found)->Use(type);
  }
  for (const RecordClass* const one : classes) {
    if (!one->has_type()) throw py::type_error(std::string(one->name()) + ": the class is missing");
  }
}

}  // namespace topicdb::python
