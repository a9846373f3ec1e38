from mcplite.tasks.task_store import ListedTask, append_task, latest_end, listed_totals, read_list, write_list

A, B, C = ListedTask("a", 10.0, 4096), ListedTask("b", 30.5, 0), ListedTask("c", 20.0, 8192)


def test_a_list_comes_back():
    data = write_list([A, B])
    assert read_list(data, 0) == [A, B] and listed_totals(data) == (2, 4096) and latest_end(data) == 30.5
    assert read_list(None, 0) == [] and read_list(write_list([]), 0) == []


def test_what_is_over_is_not_read_and_still_counted():
    data = append_task(write_list([A, B]), C)
    assert read_list(data, 15) == [B, C] and listed_totals(data) == (3, 12_288) and latest_end(data) == 30.5
    assert latest_end(append_task(write_list([A]), B)) == 30.5
