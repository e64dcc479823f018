#include "store/view/shard_view.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

using Numbers = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Returns class and generation of each slab.
Numbers NumbersOf(const std::vector<SlabView>& slabs) {
  Numbers numbers;
  for (const SlabView& view : slabs) {
    const SlabId& id = view.slab->id();
    numbers.emplace_back(id.retention_class.value(), id.generation.value());
  }
  return numbers;
}

SlabId IdOf(std::uint32_t retention_class, std::uint32_t generation) {
  return {0, RetentionClassId{retention_class}, Generation{generation}};
}

// A shard of two classes, of which the second has begun its second generation before the first has.
class ShardViewTest : public ::testing::Test {
 protected:
  ShardViewTest() : shard_(Options()) {
    shard_.Append({{"a/1", 1, "x"}, {"b", 1, "x"}});
    Rotate(1);
    shard_.Append({{"b", 2, "x"}});
    Rotate(0);
    shard_.Append({{"a/1", 2, "x"}});
  }
  static OpenOptions Options() {
    OpenOptions options;
    options.schema.retention = {{"a/#", 5us}};
    return options;
  }
  void Rotate(std::uint32_t retention_class) {
    const Status rotated =
        shard_.generations.Rotate(RetentionClassId{retention_class}, std::nullopt, false);
    EXPECT_TRUE(rotated.ok()) << rotated.message();
  }

  ShardParts shard_;
};

TEST_F(ShardViewTest, ListsSlabsByClassByUseAndByAge) {
  const auto view = shard_.state.view();
  EXPECT_EQ(NumbersOf(view->slabs()), (Numbers{{0, 1}, {0, 2}, {1, 1}, {1, 2}}));
  EXPECT_EQ(NumbersOf(view->current()), (Numbers{{0, 2}, {1, 2}}));
  EXPECT_EQ(NumbersOf(view->in_reading_order()), (Numbers{{0, 1}, {1, 1}, {1, 2}, {0, 2}}));
}

TEST_F(ShardViewTest, FindsASlabByItsNumbers) {
  const auto view = shard_.state.view();
  for (const SlabView& slab : view->slabs()) EXPECT_EQ(view->Find(slab.slab->id()), &slab);
  for (const SlabId& id : {IdOf(0, 3), IdOf(0, 0), IdOf(1, 3), IdOf(2, 1)}) {
    EXPECT_EQ(view->Find(id), nullptr) << id.retention_class.value();
  }
  EXPECT_TRUE(view->Find(IdOf(0, 1))->read_only);
  EXPECT_FALSE(view->Find(IdOf(0, 2))->read_only);
  const auto& slabs = view->slabs();
  EXPECT_EQ(PlaceOf(IdOf(0, 3), slabs) - slabs.begin(), 2) << "where it would be";
  EXPECT_EQ(PlaceOf(IdOf(1, 2), slabs) - slabs.begin(), 3);
  EXPECT_EQ(PlaceOf(IdOf(9, 9), slabs), slabs.end());
}

TEST_F(ShardViewTest, NamesASlabThatItNeedNotHave) {
  const auto view = shard_.state.view();
  const std::string& path = shard_.state.environment->database_path;
  EXPECT_EQ(view->ClassFilterOf(IdOf(0, 1)), "a/#");
  EXPECT_EQ(view->Describe(IdOf(1, 2)), "class '#', generation 2 of shard 0 of " + path);
  EXPECT_EQ(view->Describe(IdOf(0, 77)), "class 'a/#', generation 77 of shard 0 of " + path);
  const auto environment = shard_.state.environment;
  environment->retention->Set(environment->rules()->With({{"new/#", 7us}}).value());
  const RetentionClassId added = environment->rules()->IndexOf("new/#").value();
  EXPECT_EQ(view->ClassFilterOf({0, added, Generation{1}}), "new/#") << "by the rules of now";
}

TEST_F(ShardViewTest, IsAMomentThatLaterCommitsDoNotChange) {
  const auto before = shard_.state.view();
  const Serial serial = shard_.Append({{"a/1", 3, "later"}});
  const auto after = shard_.state.view();
  EXPECT_EQ(before->serial(), serial.Previous());
  EXPECT_EQ(after->serial(), serial);
  EXPECT_EQ(after->removals_version(), before->removals_version()) << "nothing is gone";
  const Slab& slab = *before->Find(IdOf(0, 2))->slab;
  std::vector<std::string_view> varying;
  const StreamId stream = slab.FindStream("a/1", &varying);
  const PlacedMessage place{stream, "a/1", varying, 3, kNoSerial, 0, {}};
  EXPECT_FALSE(slab.layout().Get(before->Source(slab), place, {})->has_value());
  EXPECT_TRUE(slab.layout().Get(after->Source(slab), place, {})->has_value());
}

TEST_F(ShardViewTest, ADeleteIsARemoval) {
  const auto before = shard_.state.view();
  ASSERT_TRUE(shard_.Delete("a/#")->status.ok());
  const auto after = shard_.state.view();
  EXPECT_NE(after->removals_version(), before->removals_version());
  EXPECT_GT(after->deletes_version(), before->deletes_version());
}

TEST_F(ShardViewTest, WithoutSomeCommitsIsTheSameMomentOtherwise) {
  auto whole = shard_.state.view();
  const ShardView* const of_all = whole.get();
  EXPECT_TRUE(whole->hidden().empty());
  const auto snapshot = whole->snapshot();
  auto hiding = std::make_shared<const ShardView>(
      whole, std::vector<SerialRange>{{Serial{1}, Serial{1}}, {Serial{3}, Serial{3}}});
  EXPECT_EQ(hiding->hidden().size(), 2U);
  EXPECT_EQ(hiding->serial(), whole->serial());
  EXPECT_EQ(hiding->removals_version(), whole->removals_version());
  EXPECT_EQ(&hiding->slabs(), &whole->slabs());
  EXPECT_EQ(hiding->db(), whole->db());
  EXPECT_EQ(hiding->snapshot(), snapshot);
  whole.reset();
  shard_.Append({{"a/1", 9, "later"}});  // the shard has a newer view now
  ASSERT_NE(shard_.state.view().get(), of_all);
  const Slab& slab = *hiding->Find(IdOf(1, 1))->slab;
  std::vector<std::string_view> varying;
  const StreamId stream = slab.FindStream("b", &varying);
  EXPECT_TRUE(slab.layout()
                  .Get(hiding->Source(slab), {stream, "b", varying, 1, kNoSerial, 0, {}}, {})
                  ->has_value())
      << "it keeps the snapshot";
}

TEST(RemovalsVersion, IsNewEachTime) {
  std::set<std::uint64_t> versions;
  for (int i = 0; i < 100; ++i) versions.insert(NewRemovalsVersion());
  EXPECT_EQ(versions.size(), 100U);
}

}  // namespace
}  // namespace topicdb
