from millstream.server.budget import ByteBudget


def test_bytes_are_taken_until_there_are_no_more():
    budget = ByteBudget(100)

    assert budget.take(60)
    assert not budget.take(60)
    assert budget.take(40)


def test_who_waits_is_served_in_order_as_bytes_come_back():
    budget = ByteBudget(100)
    budget.take(100)
    served = []
    budget.wait(80, lambda: served.append("first"))
    budget.wait(10, lambda: served.append("second"))

    budget.give_back(50)
    assert served == []

    budget.give_back(50)
    assert served == ["first", "second"]
    assert budget.used == 90


def test_nobody_overtakes_a_waiter():
    budget = ByteBudget(100)
    budget.take(50)
    budget.wait(80, lambda: None)

    assert not budget.take(10)


def test_a_request_larger_than_the_whole_budget_is_let_in_alone():
    budget = ByteBudget(100)

    assert budget.take(500)
    assert not budget.take(1)
