//! Chinese.

use super::Words;

pub(super) static WORDS: Words = Words {
    found_one: "发现历史会话（{when}，{count}）。",
    choose_one: "[R] 恢复  [N] 开始新会话",
    found_many: "发现 {n} 个历史会话：",
    choose_many: "[1-{n}] 恢复该会话  [R] 恢复最近的会话  [N] 开始新会话",
    in_file: "在文件 {file} 中",
    newer_file: "文件 {file} 中有更新的内容",
    held: "已打开：{holder}",
    nothing_begun: "未开始任何会话。",
    message_one: "{n} 条消息",
    message_many: "{n} 条消息",
    just_now: "刚刚",
    minute_one: "{n} 分钟前",
    minute_many: "{n} 分钟前",
    today: "今天 {time}",
    yesterday: "昨天 {time}",
    on_day: "{date} {time}",
    began: "团队 {team}：{members}。输入 /help 查看可用命令。",
    resumed: "已恢复：{when}，{count}。",
    earlier: "提示：有 {n} 个历史会话，最近的为 {when}，{count}；用 --resume 恢复",
    drift: "已不在团队中：{names}。其消息保留。",
    was_interrupted: "filrouge 结束时 {id} 被中断；已说的内容保留。",
    thinking: "{name} 正在思考",
    cancelled: "已取消",
    failed: "失败",
    interrupted: "已中断",
    said_nothing: "没有说话",
    agent_failed: "{name} 失败：{why}",
    unresolved: "这里没有人叫 {names}。成员有：{members}。",
    malformed: "输出中有 {n} 处不是 UTF-8。",
    agent_turns: "智能体已连续发言 {n} 次：请您发言。",
    dropped: "已从队列移除的等待成员：{n}。",
    task: "任务：{task}",
    no_task: "没有任务。",
    task_not_set: "任务未设置：{why}",
    not_kept: "无法记录最后一条内容：{why}",
    snapshot_not_written: "快照文件未写入：{why}",
    snapshot_not_read: "快照文件无法读取：{why}",
    stopping: "正在停止；再按一次 Ctrl-C 退出。",
    leave_hint: "再按一次 Ctrl-C 或 Ctrl-D 退出。",
    left: "已保存：会话 {id}。再次部署该团队即可继续。",
    ended: "已结束并保存：会话 {id}。",
    unknown_command: "没有命令 {command}。/help 列出所有命令；//… 发送以斜杠开头的消息。",
    name_a_file: "请指定团队文件：/team deploy 文件",
    no_number: "{text} 不是数字。",
    no_words: "请指定要搜索的内容：/search 词语",
    human: "人类",
    agent: "智能体",
    waiting: "等待中：{names}。输入空行让其继续。",
    no_messages: "还没有任何消息。",
    not_found: "没有找到。",
    not_said: "未发送：{why}",
    help: "\
/task [文本]        显示或设置团队任务；/task - 取消任务
/members            团队成员
/history [N]        最近 N 条消息
/search 词语        搜索该团队的会话
/pause              离开；会话改日继续
/end                结束会话
/team deploy 文件   离开，并部署另一个团队
/help               本帮助
//…                 发送以斜杠开头的消息
消息中的 [NEXT: 名字] 或 @名字 指定下一个发言者。Ctrl-C 停止发言者；Ctrl-D 离开。",
};
