// Writes well-formed inputs of page_fuzzer, of each kind, into the directory that is its argument.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page_examples.h"
#include "layout/columnar/format/page_format.h"
#include "layout/columnar/format/topic_list.h"
#include "page_input.h"

namespace topicdb::columnar {
namespace {

class SeedWriter {
 public:
  explicit SeedWriter(std::string directory) : directory_(std::move(directory)) {}

  void Write(FuzzTarget target, const std::string& bytes) {
    std::ofstream file(directory_ + "/seed-" + std::to_string(++count_), std::ios::binary);
    file << static_cast<char>(target) << bytes;
    file.close();
    ok_ = ok_ && file.good();
  }
  bool ok() const { return ok_; }

 private:
  const std::string directory_;
  int count_ = 0;
  bool ok_ = true;
};

// Returns a packed page as it was before compression.
std::string Uncompressed(const std::string& page) {
  const PageHeader header = ReadHeader(page).value();
  std::string body(header.body_bytes, '\0');
  const std::string_view stored = std::string_view(page).substr(kHeaderBytes, header.stored_bytes);
  if (!Decompress(header.codec, stored, body.data(), body.size()).ok()) return {};
  return page.substr(0, kHeaderBytes) + body;
}

void WritePages(Rows rows, SeedWriter* seeds) {
  const std::string plain = PlainPage(rows);
  seeds->Write(FuzzTarget::kPage, plain);
  seeds->Write(FuzzTarget::kDamagedPage, plain);
  std::sort(rows.begin(), rows.end());
  for (const PageCodec codec : {PageCodec::kZstd, PageCodec::kLz4}) {
    seeds->Write(FuzzTarget::kPage, PackedPage(rows, codec));
  }
  seeds->Write(FuzzTarget::kPackedBody, Uncompressed(PackedPage(rows, PageCodec::kLz4)));
  seeds->Write(FuzzTarget::kPackedBody, Uncompressed(ApartPage(rows, PageCodec::kLz4).keys));
}

void WriteRecords(SeedWriter* seeds) {
  BlockEntry entry;
  entry.codec = PageCodec::kZstd;
  entry.rows = 1'000;
  entry.pages = 3;
  entry.extent = {5, 1'000'000, Serial{7}, Serial{300}};
  entry.bytes = 40'000;
  entry.streams = std::string(32, '\x5a');
  seeds->Write(FuzzTarget::kBlockEntry, Encode(entry));
  entry.form = PageForm::kApart;
  entry.value_bytes = 30'000;
  seeds->Write(FuzzTarget::kBlockEntry, Encode(entry));
  seeds->Write(FuzzTarget::kDirectory,
               Encode(Directory{{500, {5, 9, Serial{7}, Serial{8}}, StreamId{1}, "a/b"},
                                {500, {6, 1'000, Serial{9}, Serial{300}}, StreamId{2}, "a/c"}}));
  seeds->Write(FuzzTarget::kDeletedRows, Encode(DeletedRows{0, 1, 300, 70'000}));
  seeds->Write(FuzzTarget::kFilter, EncodeFilter(std::string(32, '\xa5')));
  TopicListBuilder topics;
  topics.Add(StreamId{1}, "a/b", 0, 9);
  topics.Add(StreamId{1}, "a/c", 1, 1'000);
  topics.Add(StreamId{300}, "b", 1, 6);
  const Extent extent{5, 1'000, Serial{7}, Serial{300}};
  seeds->Write(FuzzTarget::kTopicList, topics.Build(1'000, 2, extent).value());
}

}  // namespace
}  // namespace topicdb::columnar

int main(int count, char** arguments) {
  using namespace topicdb::columnar;
  if (count != 2) {
    std::fputs("page_seeds DIRECTORY\n", stderr);
    return 2;
  }
  SeedWriter seeds(arguments[1]);
  WritePages({{1, "t", 0, 1, 0, ""}}, &seeds);
  WritePages(ExampleRows(), &seeds);
  Rows staged = ExampleRows();
  for (Row& row : staged) row.serial = kStagedSerial.value();
  const StoredPage apart = ApartPage(ExampleRows(), PageCodec::kLz4);
  seeds.Write(FuzzTarget::kParcel, ParcelOf(apart, 0));
  seeds.Write(FuzzTarget::kParcel, ParcelOf(ApartPage(staged, PageCodec::kZstd), 9));
  for (const PageCodec codec : {PageCodec::kZstd, PageCodec::kLz4}) {
    seeds.Write(FuzzTarget::kValues, ApartPage(ExampleRows(), codec).values);
  }
  Rows many;
  for (std::uint32_t i = 0; i < 40; ++i) {
    many.push_back({1 + i % 2, "topic/" + std::to_string(i % 5), 1'000 + i * i, 1 + i / 4, i % 4,
                    std::string(i % 3, 'v')});
  }
  many.push_back({9, "z", std::numeric_limits<std::int64_t>::max(), ~std::uint64_t{0}, 0, "end"});
  WritePages(many, &seeds);
  WriteRecords(&seeds);
  if (!seeds.ok()) std::fprintf(stderr, "page_seeds: cannot write into %s\n", arguments[1]);
  return seeds.ok() ? 0 : 1;
}
